"""Processing of every page of the site: text from results, its head, only the scripts it needs."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from docutils import nodes
from docutils.parsers.rst import Directive, directives

from headprune_lib.replication import measurements, store
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.claims.verdict import COMBINING, Verdict
from headprune_lib.replication.pages import plots, tables
from headprune_lib.replication.pages.display import show_figure
from headprune_lib.replication.pages.frames import frame, step_at
from headprune_lib.replication.pages.site import answer, removal
from headprune_lib.replication.pages.site.answer import all_results
from headprune_lib.replication.pages.site.cards import cards_html
from headprune_lib.replication.pages.site.results import (
    FILE,
    results_table,
    searched_html,
    status_table,
)
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.titles import setting

PICTURE = "figure3b.png"
"""The picture that other sites show with a link, in ``_static``: the README's committed figure."""

_LONGEST = 201  # characters of a description, with the ellipsis


def substitutions(app: Any, config: Any) -> None:
    """Fill in the words of Markdown that depend on results: ``{{ answer }}`` and the others."""
    results = all_results()
    config.site_address = config.site_address or os.environ.get("SITE_ADDRESS", "")
    config.site_repository = config.site_repository or repository()
    config.myst_substitutions = {
        **config.myst_substitutions,
        "title": answer.title(verdicts()),
        "answer": answer.answer(verdicts()),
        "standing": answer.standing(verdicts()),
        "combining": COMBINING,
        "tally": answer.tally(verdicts()),
        "trainings": answer.how_sure(verdicts(), results)[1],
        "measured": max(result.provenance["date"] for result in results)[:10],
        "code": _code(config.site_repository),
    }


def repository() -> str:
    """The address of the code: the workflow's, else that of the git remote; empty if unknown."""
    if os.environ.get("GITHUB_REPOSITORY") and os.environ.get("GITHUB_SERVER_URL"):
        return "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}".format_map(os.environ)
    command = ["git", "-C", str(project_root()), "remote", "get-url", "origin"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    address = asked.stdout.strip().removesuffix(".git")
    return address if address.startswith("https://") else ""


def _code(address: str) -> str:
    if address:
        return f"[{address.removeprefix('https://')}]({address})"
    return "in the folder that this site was built from, which has no public address yet"


def prepare_page(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Add minus signs, how to run a notebook, and head tags; keep MathJax only for formulas."""
    body = with_room_for_formulas(with_minus_signs(context.get("body", "")))
    if pagename.startswith("notebooks/"):
        body = body.replace("</h1>", f"</h1>\n{_EDIT.format(pagename[10:12])}", 1)
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
            # the front page is described by what was found, not by who wrote it
            app.config.myst_substitutions["tally"]
            if pagename == "index"
            else description_of(doctree) or title,
            app.config.site_address,
            f"{pagename}.html",
        )


_EDIT = (
    '<p class="edit"><a href="../book/rerun.html#edit-and-run">Edit and run</a> this page: '
    "<code>headprune open {}</code></p>"
)


def has_formula(body: str) -> bool:
    r"""Whether MathJax has anything to do: a formula of Sphinx, or one in an output.

    >>> has_formula('<span class="math notranslate">x</span>'), has_formula("<p>none</p>")
    (True, False)
    """
    return bool(re.search(r'class="[^"]*\bmath\b|\\\(|\\\[', body))


def description_of(doctree: Any) -> str:
    """The first paragraph of a page of more than 40 characters, cut at the end of a word."""
    paragraphs = (paragraph.astext() for paragraph in doctree.findall(nodes.paragraph))
    first = next((words for words in paragraphs if len(words) > 40), "")
    return textwrap.shorten(first, _LONGEST, placeholder=" …")


def head_tags(title: str, description: str, address: str, path: str) -> str:
    """Description and OpenGraph tags; those with addresses only if the site's own is known."""
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


# A sixth of a megabyte on each page for search-as-you-type, which this site does not use: a search
# has its own page.
_SEARCHING = re.compile(
    r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js"></script>'
)


def finish(app: Any, exception: Exception | None) -> None:
    """Write the sitemap, and drop what the theme loads on every page but no page uses."""
    if exception or app.builder.name != "html":
        return
    folder = Path(app.outdir)
    pages = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.html")
        if not path.is_relative_to(folder / "_static")
        and path.name not in ("search.html", "genindex.html", "py-modindex.html")
    )
    (folder / "sitemap.xml").write_text(sitemap(pages, app.config.site_address), "utf-8")
    # 1.5 MB to draw icons that the style sheet's font draws as well
    icons = folder / "_static" / "scripts" / "fontawesome.js"
    icons.write_text("// The icons come from the style sheet's font.\n", "utf-8")
    for heavy in icons.parent.glob("fontawesome.js.map"):
        heavy.unlink()
    for page in folder.rglob("*.html"):
        if page.name != "search.html":
            page.write_text(_SEARCHING.sub("", page.read_text("utf-8")), "utf-8")


def sitemap(pages: list[str], address: str) -> str:
    """The sitemap of pages given by path; addresses are absolute if the site's own is known."""
    base = f"{address.rstrip('/')}/" if address else ""
    places = "".join(f"<url><loc>{html.escape(base + page)}</loc></url>\n" for page in pages)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{places}</urlset>\n'
    )


# Matches that stay unchanged come first: code, formulas and signatures with their contents, other
# tags, and a hyphen after a closing tag ("<em>enc</em>-2").
_FOUND = re.compile(
    r"<(script|style|code|pre|textarea)\b.*?</\1>"
    r"|<(span|div)\b[^>]*\bclass=\"[^\"]*\bmath\b[^>]*>.*?</\2>"
    r"|<dt\b[^>]*\bclass=\"[^\"]*\bsig\b[^>]*>.*?</dt>"
    r"|</(?:a|abbr|b|code|em|i|strong|sub|sup)>-?"
    r"|<[^>]*>"
    r"|(?<![\w.)\]/–−-])(?P<minus>[-−])(?P<nothing>(?=0(?:\.0+)?(?![\d.])))?(?=\.?\d)",
    re.DOTALL,
)


def with_minus_signs(body: str) -> str:
    """A page's HTML with a minus sign before every negative number in its text.

    A number rounded to zero has no sign.

    >>> with_minus_signs("<td title='-1'>-0.5 [-1, 2]</td> <code>-1</code> 2026-11-24, SST-2")
    "<td title='-1'>−0.5 [−1, 2]</td> <code>-1</code> 2026-11-24, SST-2"
    """
    return _FOUND.sub(_sign, body)


def _sign(found: re.Match[str]) -> str:
    if not found["minus"]:
        return found[0]
    return "" if found["nothing"] is not None else "−"


_FORMULA = re.compile(r'<div class="(math [^"]*)">(.*?)</div>', re.DOTALL)


def with_room_for_formulas(body: str) -> str:
    r"""Give displayed formulas a class that says how tall they will be.

    >>> with_room_for_formulas('<div class="math notranslate">\\frac{1}{2}</div>')
    '<div class="math notranslate fraction">\\frac{1}{2}</div>'
    """
    return _FORMULA.sub(_with_height, body)


def _with_height(found: re.Match[str]) -> str:
    classes, formula = found.groups()
    height = " sum" if r"\sum" in formula else " fraction" if r"\frac" in formula else ""
    return f'<div class="{classes}{height}">{formula}</div>'


EXPLORER = "book/static/explorer.js"
CENSUS, STATUS = "data/census.csv", "data/status.csv"


@cache
def every_result() -> pd.DataFrame:
    """All estimates, read once per build."""
    return results_table(all_results())


@cache
def verdicts() -> tuple[Verdict, ...]:
    """The verdicts on C1 to C8, read once per build."""
    return tuple(evidence.all_verdicts())


def explorer_html() -> str:
    """The interactive picture with its data and its script, and a still one.

    All are in the page itself: a browser loads neither a module nor JSON from ``file://``. The still
    one is shown where no script runs.
    """
    results = measurements.found(*removal.MEASURED)
    data = removal.removal_data(results)
    entry = removal.first_shown(data)
    step = step_at(data[entry]["shares"], removal.SHOWN_SHARE)
    state = {"data": data, "chosen": {"entry": entry, "order": 0, "step": step}}
    # "</" would end the element that holds it
    content = json.dumps(state, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    module = (project_root() / EXPLORER).read_text("utf-8")
    caption = (
        f"{setting(results[entry])}: the score as heads are removed together. With scripts, the picture "
        "here also shows which heads go."
    )
    still = show_figure("Figure 3", caption, plots.figure3b, results[entry]).data
    return f"""<div id="removal" class="removal">
<div id="explorer" class="explorer"></div>
<div class="still">{still}</div>
</div>
<script type="application/json" id="explorer-data">{content}</script>
<script type="module">{module}</script>"""


def rules_html() -> str:
    """The rules by which each claim is judged, in words."""
    rules = tables.rules_table().map(html.escape)
    return answer.stacked_html([*rules], rules.to_numpy().tolist())


PARTS: dict[str, Callable[[], str]] = {
    "answer": lambda: answer.summary_html(verdicts(), "book/claims.html"),
    "explorer": explorer_html,
    "cards": lambda: f'<div class="claims">{cards_html(verdicts())}</div>',
    "results": lambda: searched_html(
        every_result(), "estimates", "Every estimate in the stored results.", FILE
    ),
    "census": lambda: searched_html(
        pd.read_csv(project_root() / CENSUS, keep_default_na=False),
        "census",
        "What each model type does, check by check.",
        CENSUS,
    ),
    "rules": rules_html,
    "changed": lambda: tables.as_html(tables.changed_table()),
    "new data": lambda: tables.as_html(tables.new_data_table(verdicts())),
    "status": lambda: searched_html(
        status_table(all_results()), "runs", "Every measurement run, the newest first.", STATUS
    ),
}


class Stored(Directive):
    """Directive that inserts a part of a page, by its name in ``PARTS``."""

    required_arguments, final_argument_whitespace = 1, True

    def run(self) -> list[nodes.Node]:
        """The part as HTML."""
        name = directives.choice(self.arguments[0], tuple(PARTS))
        return [nodes.raw("", PARTS[name](), format="html")]


def offer_to_run(app: Any, config: Any) -> None:
    """Add buttons for Binder and Colab to every notebook's page if the code's address is known."""
    if address := config.site_repository:
        config.html_theme_options = {
            **config.html_theme_options,
            "repository_url": address,
            "repository_branch": os.environ.get("GITHUB_REF_NAME", "main"),
            "path_to_docs": ".",
            "launch_buttons": {
                "binderhub_url": "https://mybinder.org",
                "colab_url": "https://colab.research.google.com",
                "notebook_interface": "jupyterlab",
            },
        }


def ship(site: Path) -> None:
    """Copy every stored result and the paper's values into a folder of pages.

    They keep their paths in the checkout, so that a page's link works in both.
    """

    def copied(source: Path) -> Path:
        target = site / source.relative_to(project_root())
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(source, target))

    for key in store.find():
        frame(store.load(key)).to_csv(copied(key.path()).with_suffix(".csv"), index=False)
    for source in (project_root() / "data" / "reference").iterdir():
        copied(source)
    copied(project_root() / CENSUS)
    every_result().to_csv(site / FILE, index=False)
    status_table(all_results()).to_csv(site / STATUS, index=False)
