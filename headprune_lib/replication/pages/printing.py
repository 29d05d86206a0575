"""The whole book as one PDF, printed by Chromium: each section of the book starts on a new page.

python -m headprune_lib.replication.pages.printing _build/html _build/headprune.pdf
"""

from __future__ import annotations

import posixpath
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from bs4 import BeautifulSoup, Tag

from headprune_lib.replication.paths import project_root

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_WAIT = 60_000  # milliseconds of the page's own clock, in which formulas are typeset
# What is pressed, not read.
_UNPRINTED = "script, button, .headerlink, .removal .explorer, details.hide summary, .page-code"
_STYLE = """
main.printed > article { break-before: page; max-width: none; }
main.printed > article:first-child { break-before: auto; }
main.printed :is(h2, h3) { break-after: avoid; }
"""


def pages_in_order() -> list[str]:
    """The book's pages as its contents have them, such as ``notebooks/01_one_head``."""
    contents = yaml.safe_load((project_root() / "_toc.yml").read_text("utf-8"))
    return [
        contents["root"],
        *(chapter["file"] for part in contents["parts"] for chapter in part["chapters"]),
    ]


def as_one_page(site: Path, pages: list[str]) -> str:
    """All pages of a built site as one, with links between them that work within it.

    Raises:
        FileNotFoundError: a page was not built.
    """
    whole = BeautifulSoup((site / f"{pages[0]}.html").read_text("utf-8"), "html.parser")
    style = whole.new_tag("style")
    style.string = _STYLE
    whole.head.append(style)
    scripts = {}
    main = whole.new_tag("main", attrs={"class": "printed bd-content"})
    for page in pages:
        read = BeautifulSoup((site / f"{page}.html").read_text("utf-8"), "html.parser")
        for script in read.find_all("script", src=True):
            if "mathjax" in script["src"]:
                scripts["mathjax"] = script.extract()
                scripts["mathjax"]["src"] = _from_root(page, script["src"])
        article = read.select_one("article.bd-article")
        for element in article.select(_UNPRINTED):
            element.decompose()
        _move(article, page, pages)
        main.append(article)
    for script in whole.head.find_all("script", src=True):
        script.decompose()
    whole.head.extend(scripts.values())
    whole.body.clear()
    whole.body.append(main)
    whole.html["data-theme"] = whole.html["data-mode"] = "light"
    return str(whole)


def _move(article: Tag, page: str, pages: list[str]) -> None:
    """Give a page's anchors names of their own, and its links and pictures the way from the root."""
    article["id"] = _anchor(page)
    for element in article.find_all(id=True):
        element["id"] = _anchor(page, element["id"])
    for fold in article.find_all("details"):
        fold["open"] = ""
    for picture in article.find_all(src=True):
        picture["src"] = _from_root(page, picture["src"])
    for link in article.find_all("a", href=True):
        path, _, anchor = link["href"].partition("#")
        if ":" in path:
            continue
        target = _from_root(page, path).removesuffix(".html") if path else page
        if target in pages:
            link["href"] = f"#{_anchor(target, anchor)}"
        else:  # of the search or an index, which are not printed
            del link["href"]


def _anchor(page: str, anchor: str = "") -> str:
    return "--".join(filter(None, (page.replace("/", "-"), anchor)))


def _from_root(page: str, path: str) -> str:
    if ":" in path:
        return path
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


def print_book(site: Path, target: Path) -> Path:
    """Write the PDF of a built site.

    Raises:
        FileNotFoundError: no Chromium is installed, or the site was not built.
        ValueError: Chromium wrote no PDF; the message has its last words.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise FileNotFoundError(f"none of {', '.join(BROWSERS)} is installed; one prints the book")
    content = as_one_page(site, pages_in_order())
    # beside the pages, whose pictures and style sheets it needs
    page = site / "print.html"
    with tempfile.TemporaryDirectory() as profile:
        page.write_text(content, "utf-8")
        try:
            ran = subprocess.run(
                [
                    *(
                        browser,
                        "--headless",
                        "--no-sandbox",
                        "--disable-gpu",
                        "--no-pdf-header-footer",
                    ),
                    f"--user-data-dir={profile}",
                    f"--virtual-time-budget={_WAIT}",
                    *(f"--print-to-pdf={target.resolve()}", page.resolve().as_uri()),
                ],
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        finally:
            page.unlink()
    if ran.returncode or not target.is_file():
        raise ValueError(f"{browser} wrote no {target}: {ran.stderr.strip()[-400:]}")
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{print_book(Path(sys.argv[1]), Path(sys.argv[2]))}\n")
