"""What is done to every page of the site: text from results, its head, only the scripts it needs."""

from __future__ import annotations

import html
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from headprune_lib.replication.pages.site.answer import all_results, answer, how_sure, tally
from headprune_lib.replication.pages.site.directive import verdicts
from headprune_lib.replication.pages.site.typography import (
    with_minus_signs,
    with_room_for_formulas,
)
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.store import Result

PICTURE = "figure3b.png"
"""The picture that other sites show with a link, in ``_static``: the README's, which is committed."""

_LONGEST = 200  # letters of a description


def substitutions(app: Any, config: Any) -> None:
    """Give Markdown its words that follow from results: ``{{ answer }}`` and the others."""
    results = all_results()
    config.site_address = config.site_address or os.environ.get("SITE_ADDRESS", "")
    config.site_repository = config.site_repository or repository()
    config.myst_substitutions = {
        **config.myst_substitutions,
        "answer": answer(verdicts()),
        "tally": tally(verdicts()),
        "how_sure": " ".join(how_sure(verdicts(), results)),
        "measured": last_measured(results),
        "code": _code(config.site_repository),
    }


def last_measured(results: list[Result]) -> str:
    """The date of the newest result, such as ``2026-11-23``."""
    return max(part.provenance["date"] for one in results for part in one.parts.values())[:10]


def repository() -> str:
    """Where the code is: what the workflow says, else where it was cloned from; empty if unknown."""
    server, name = (os.environ.get(f"GITHUB_{one}", "") for one in ("SERVER_URL", "REPOSITORY"))
    if server and name:
        return f"{server}/{name}"
    asked = subprocess.run(
        ["git", "-C", str(project_root()), "remote", "get-url", "origin"],
        capture_output=True,
        text=True,
        check=False,
    )
    address = asked.stdout.strip().removesuffix(".git")
    return address if address.startswith("https://") else ""


def _code(address: str) -> str:
    if address:
        return f"[{address.removeprefix('https://')}]({address})"
    return "in the folder that this site was built from, which has no public address yet"


def prepare_page(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Minus signs, MathJax only where there is a formula, description and OpenGraph in the head."""
    body = with_room_for_formulas(with_minus_signs(context.get("body", "")))
    context["body"] = body
    if not has_formula(body):
        context["script_files"][:] = [
            script
            for script in context["script_files"]
            if "mathjax" not in str(getattr(script, "filename", script)).lower()
            and "MathJax" not in getattr(script, "attributes", {}).get("body", "")
        ]
    context["root_title"] = "The answer"  # in the sidebar, where the page's own title is long
    if doctree is not None:
        title = re.sub(r"<[^>]+>", "", context.get("title", ""))
        context["metatags"] = context.get("metatags", "") + head_tags(
            title,
            # of the front page what was found, not who wrote it
            app.config.myst_substitutions["tally"]
            if pagename == "index"
            else description_of(doctree) or title,
            app.config.site_address,
            f"{pagename}.html",
        )


def has_formula(body: str) -> bool:
    r"""Whether MathJax has anything to do: a formula of Sphinx, or one in an output.

    >>> has_formula('<span class="math notranslate">x</span>'), has_formula("<p>none</p>")
    (True, False)
    """
    return bool(re.search(r'class="[^"]*\bmath\b|\\\(|\\\[', body))


def description_of(doctree: Any) -> str:
    """The first paragraph of a page, cut at the end of a word."""
    from docutils import nodes

    for paragraph in doctree.findall(nodes.paragraph):
        words = " ".join(paragraph.astext().split())
        if len(words) > 40:
            if len(words) <= _LONGEST:
                return words
            return words[:_LONGEST].rsplit(" ", 1)[0] + " …"
    return ""


def head_tags(title: str, description: str, address: str, path: str) -> str:
    """Description and OpenGraph; addresses are whole where the site's own is known, as they must be."""
    title, description = html.escape(html.unescape(title)), html.escape(description)
    tags = [
        f'<meta name="description" content="{description}"/>',
        '<meta property="og:type" content="article"/>',
        f'<meta property="og:title" content="{title}"/>',
        f'<meta property="og:description" content="{description}"/>',
        '<meta name="twitter:card" content="summary_large_image"/>',
    ]
    if address:
        base = address.rstrip("/")
        tags += [
            f'<meta property="og:url" content="{base}/{path}"/>',
            f'<meta property="og:image" content="{base}/_static/{PICTURE}"/>',
            f'<link rel="canonical" href="{base}/{path}"/>',
        ]
    return "\n".join(tags) + "\n"


# A sixth of a megabyte on each page, for results while one types, which this site does not show: a
# search leads to its own page.
_SEARCHING = re.compile(
    r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js"></script>'
)


def finish(app: Any, exception: Exception | None) -> None:
    """Write the sitemap, and drop what the theme loads on every page and no page uses."""
    if exception or app.builder.name != "html":
        return
    folder = Path(app.outdir)
    pages = sorted(
        str(path.relative_to(folder).as_posix())
        for path in folder.rglob("*.html")
        if not path.is_relative_to(folder / "_static")
        and path.name not in ("search.html", "genindex.html", "py-modindex.html")
    )
    (folder / "sitemap.xml").write_text(sitemap(pages, app.config.site_address), "utf-8")
    # 1.5 MB that draw the icons which the style sheet's font draws as well
    icons = folder / "_static" / "scripts" / "fontawesome.js"
    icons.write_text("// The icons come from the style sheet's font.\n", "utf-8")
    for heavy in icons.parent.glob("fontawesome.js.map"):
        heavy.unlink()
    for page in folder.rglob("*.html"):
        if page.name != "search.html":
            page.write_text(_SEARCHING.sub("", page.read_text("utf-8")), "utf-8")


def sitemap(pages: list[str], address: str) -> str:
    """The sitemap of pages by their path; addresses are whole where the site's own is known."""
    base = f"{address.rstrip('/')}/" if address else ""
    places = "".join(f"<url><loc>{html.escape(base + page)}</loc></url>\n" for page in pages)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{places}</urlset>\n'
    )
