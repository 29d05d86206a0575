"""Tables in the paper's own form: a cell a layer or a head, the paper's grid above ours."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from IPython.display import HTML

from headprune_lib.discovery import KINDS
from headprune_lib.replication.bounds import ALPHA
from headprune_lib.replication.pages.tables.markup import framed
from headprune_lib.replication.published import paper
from headprune_lib.replication.store.results import Result

__all__ = ["heads_grid", "kinds_grid", "layers_grid", "other_kinds_grid"]

_STEPS = {"BLEU": (0.1, 0.3, 1.0), "points": (0.25, 0.5, 1.0)}
"""Unit -> changes from which a cell is coloured more strongly."""
SIGNIFICANT = "p < 0.01"


@dataclass(frozen=True)
class Block:
    """One grid: rows of changes, a name each; cells (row, column) that are significant."""

    title: str
    rows: Mapping[str, Sequence[float]]
    significant: Collection[tuple[int, int]] = field(default_factory=set)


def grid_html(
    name: str, caption: str, blocks: Sequence[Block], unit: str, column: str, row: str
) -> HTML:
    """Grids below one another with the same columns; significant cells are outlined.

    Args:
        name: number of the table on the page.
        caption: what is seen in it, as HTML.
        blocks: the grids.
        unit: ``"BLEU"`` or ``"points"``.
        column: what a column is, such as ``"head"``.
        row: what a row is, such as ``"layer"``.
    """
    width = max(len(values) for block in blocks for values in block.rows.values())
    numbers = range(1, width + 1)
    heads = "".join(
        f'<th scope="col"><span class="heard">{column} </span>{n}</th>' for n in numbers
    )
    markup = (
        f'<table class="grid"><thead><tr><th scope="col">{row} \\ {column}</th>{heads}</tr></thead>'
    )
    taken: list[dict[str, Any]] = []
    for block in blocks:
        markup += (
            f'<tbody><tr><th class="block" scope="rowgroup" colspan="{width + 1}">'
            f"{html.escape(block.title)}</th></tr>"
        )
        for i, (label, values) in enumerate(block.rows.items()):
            outlined = [(i, j) in block.significant for j in range(len(values))]
            cells = "".join(
                _cell(value, marked, _STEPS[unit])
                for value, marked in zip(values, outlined, strict=True)
            )
            cells += "<td></td>" * (width - len(values))
            markup += f'<tr><th scope="row">{html.escape(label)}</th>{cells}</tr>'
            taken += [
                {
                    "of": block.title,
                    row: label,
                    column: j,
                    f"change ({unit})": value,
                    SIGNIFICANT: marked,
                }
                for j, (value, marked) in enumerate(zip(values, outlined, strict=True), start=1)
            ]
        markup += "</tbody>"
    return HTML(framed(markup + "</table>", name, caption, pd.DataFrame(taken)))


def _cell(value: float, significant: bool, steps: Sequence[float]) -> str:
    strength = sum(abs(value) >= step for step in steps)
    colour = f"{'loss' if value < 0 else 'gain'}-{strength}" if strength else "level"
    heard = (
        f'<span class="heard"> {SIGNIFICANT.replace("<", "below")}</span>' if significant else ""
    )
    shown = f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
    marks = f"{colour} significant" if significant else colour
    return f'<td class="{marks}">{shown}{heard}</td>'


def _of_heads(heads: Sequence[Mapping[str, Any]], scale: float, p: str, title: str) -> Block:
    """Every head's change; layers are rows."""
    rows: dict[str, list[float]] = {}
    for head in heads:
        rows.setdefault(str(head["layer"] + 1), []).append(scale * head["delta"])
    significant = {(head["layer"], head["head"]) for head in heads if head[p] < ALPHA}
    return Block(title, rows, significant)


def heads_grid(shown: Mapping[str, Result], name: str, caption: str) -> HTML:
    """Table 1: the change of BLEU with each encoder head cut, the paper's grid above ours."""
    published = paper("table1")
    theirs = Block(
        f"the paper: WMT en-fr, newstest2013, uncut {published['base_bleu']} BLEU",
        {str(layer): row for layer, row in enumerate(published["delta_bleu"], start=1)},
        {(layer - 1, head - 1) for layer, head in published["significant"]},
    )
    ours = []
    for label, result in shown.items():
        heads, title = _of_kind(result, "enc-enc"), _here(label, result)
        ours.append(_of_heads(heads, 1, "p_paper", title))
        if beside := _as_sacrebleu(heads):
            ours.append(Block(_BESIDE, _of_heads(beside, 1, "p_paper", "").rows))
    return grid_html(name, caption, [theirs, *ours], "BLEU", "head", "layer")


def other_kinds_grid(table1: Result, name: str, caption: str) -> HTML:
    """Table 1's grid for the two kinds of attention that the paper leaves out."""
    blocks = [
        _of_heads(_of_kind(table1, kind), 1, "p_paper", kind) for kind in KINDS if kind != "enc-enc"
    ]
    return grid_html(name, caption, blocks, "BLEU", "head", "layer")


def _of_kind(table1: Result, kind: str) -> list[dict[str, Any]]:
    return [head for head in table1.values["heads"] if head["kind"] == kind]


_BESIDE = "the same as sacrebleu takes BLEU, of the text without Moses’ tokens; not tested"


def _as_sacrebleu(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records with sacrebleu's own changes as theirs; none where BLEU is sacrebleu's anyway."""
    if not all("delta_sacrebleu" in one for one in records):
        return []
    return [{**one, "delta": one["delta_sacrebleu"]} for one in records]


def _here(label: str, result: Result) -> str:
    baseline = result.values["baseline"]
    score = (
        f"{baseline['bleu']:.2f} BLEU"
        if "bleu" in baseline
        else f"{100 * baseline['accuracy']:.1f}%"
    )
    if "sacrebleu" in baseline:
        score += f" of Moses’ tokens, {baseline['sacrebleu']:.2f} as sacrebleu takes it"
    return f"here: {label}, {result.n_examples:,} test texts, uncut {score}"


def kinds_grid(artifact: str, shown: Mapping[str, Result], name: str, caption: str) -> HTML:
    """Tables 2 and 5: the change of BLEU with each layer reduced to its best head."""
    published = paper(artifact)
    theirs = Block(
        f"the paper: WMT en-fr, {'newstest2013' if artifact == 'table2' else 'newstest2014'}",
        {kind: published[kind]["delta_bleu"] for kind in KINDS},
        {
            (i, layer - 1)
            for i, kind in enumerate(KINDS)
            for layer in published[kind]["significant"]
        },
    )
    ours = []
    for label, result in shown.items():
        layers = result.values["layers"]
        ours.append(_of_layers(_here(label, result), layers))
        if beside := _as_sacrebleu(layers):
            ours.append(Block(_BESIDE, _of_layers("", beside).rows))
    return grid_html(name, caption, [theirs, *ours], "BLEU", "layer", "kind")


def _of_layers(title: str, layers: Sequence[Mapping[str, Any]]) -> Block:
    """A translator's layers; kinds of attention are rows."""
    rows = {kind: [row["delta"] for row in layers if row["kind"] == kind] for kind in KINDS}
    significant = {(KINDS.index(row["kind"]), row["layer"]) for row in layers if row["p"] < ALPHA}
    return Block(title, rows, significant)


def layers_grid(artifact: str, shown: Mapping[str, Result], name: str, caption: str) -> HTML:
    """Tables 3 and 6: the change of accuracy with each layer reduced to its best head."""
    published = paper(artifact)["delta_accuracy_percent"]
    rows = {"the paper: BERT-base, MNLI": published}
    significant = {(0, layer - 1) for layer in paper(artifact)["significant"]}
    for i, (label, result) in enumerate(shown.items(), start=1):
        layers = result.values["layers"]
        rows[label] = [100 * row["delta"] for row in layers]
        significant |= {(i, row["layer"]) for row in layers if row["p"] < ALPHA}
    block = Block("change of accuracy in points", rows, significant)
    return grid_html(name, caption, [block], "points", "layer", "model, task")
