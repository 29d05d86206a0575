"""The directive ``stored``: a part of a page that is written from the stored results."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

from docutils import nodes
from docutils.parsers.rst import Directive, directives

from headprune_lib.replication.claims import evidence
from headprune_lib.replication.claims.verdict import Verdict
from headprune_lib.replication.pages.site.answer import all_results
from headprune_lib.replication.pages.site.cards import cards_html, tally_html
from headprune_lib.replication.pages.site.removal import first_shown, first_step, removal_data
from headprune_lib.replication.pages.site.status import status_html
from headprune_lib.replication.pages.site.still import still_svg
from headprune_lib.replication.paths import project_root

EXPLORER = "book/static/explorer.js"
# The model that the module is given on a page: what anywidget's has, without a kernel behind it.
_START = """
const el = document.getElementById("explorer");
const state = JSON.parse(document.getElementById("explorer-data").textContent);
const listeners = {};
const model = {
  get: (name) => state[name],
  set: (name, value) => {
    state[name] = value;
    (listeners[`change:${name}`] ?? []).forEach((listener) => listener());
  },
  on: (event, listener) => (listeners[event] ??= []).push(listener),
  save_changes: () => {},
};
document.getElementById("removal").classList.add("moves");  // shown, so that it has a width
render({ model, el });
"""


@cache
def verdicts() -> tuple[Verdict, ...]:
    """C1 to C8, read once a build."""
    return tuple(evidence.all_verdicts())


def explorer_html() -> str:
    """The picture that can be moved, its data and its script in the page, and the same one still.

    Both are in the page itself: a browser loads neither a module nor JSON from ``file://``.
    """
    data = removal_data()
    entry = first_shown(data)
    chosen = {"entry": entry, "order": 0, "step": first_step(data[entry])}
    state = {"data": data, "chosen": chosen}
    # "</" would end the element that holds it
    content = json.dumps(state, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    module = (project_root() / EXPLORER).read_text("utf-8")
    return f"""<div id="removal" class="removal">
<div id="explorer" class="explorer"></div>
<div class="still">{still_svg(data[entry])}</div>
</div>
<script type="application/json" id="explorer-data">{content}</script>
<script type="module">{module}{_START}</script>"""


PARTS: dict[str, Callable[[], str]] = {
    "tally": lambda: tally_html(verdicts()),
    "explorer": explorer_html,
    "cards": lambda: f'<div class="claims">{cards_html(verdicts())}</div>',
    "status": lambda: status_html(all_results()),
}


class Stored(Directive):
    """A part of a page, by its name in ``PARTS``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The part as HTML."""
        name = directives.choice(self.arguments[0], tuple(PARTS))
        return [nodes.raw("", PARTS[name](), format="html")]
