"""Tables of the paper's sections, the paper's values next to ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from headprune_lib.replication.bench import read_runs
from headprune_lib.replication.bounds import ALPHA, DELTA, DELTA_BLEU, SHOWN_TOLERANCE
from headprune_lib.replication.claims.evidence import judge
from headprune_lib.replication.claims.questions import strata
from headprune_lib.replication.claims.verdict import Judged
from headprune_lib.replication.formatting import estimate, points, signed
from headprune_lib.replication.pages.frames import prunable_at
from headprune_lib.replication.pages.tables.markup import (
    Block,
    blocks_html,
    framed,
    grid_html,
    judged_text,
)
from headprune_lib.replication.pages.tables.verdicts import both_words
from headprune_lib.replication.published import paper
from headprune_lib.replication.store.packing import KINDS
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import BERT_SHAPE, machine, spelled


def heads_grid(shown: Mapping[str, Result], name: str, caption: str) -> HTML:
    """Table 1: the change of BLEU with each encoder head cut, the paper's grid above ours."""
    published = paper("table1")
    theirs = Block(
        f"the paper: WMT en-fr, newstest2013, uncut {published['base_bleu']} BLEU",
        {str(layer): row for layer, row in enumerate(published["delta_bleu"], start=1)},
        {(layer - 1, head - 1) for layer, head in published["significant"]},
    )

    def of_heads(title: str, heads: pd.DataFrame, change: str = "delta") -> Block:
        by_layer = heads.query("kind == 'enc-enc'").pivot(index="layer", columns="head")
        rows = {str(layer + 1): list(row) for layer, row in by_layer[change].iterrows()}
        return Block(title, rows, _where_true(by_layer["p_paper"] < ALPHA))

    blocks = [theirs, *_ours(shown, "heads", of_heads)]
    return grid_html(name, caption, blocks, "BLEU", "head", "layer")


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

    def of_layers(title: str, layers: pd.DataFrame, change: str = "delta") -> Block:
        by_kind = layers.pivot(index="kind", columns="layer").loc[list(KINDS)]
        rows = {kind: row.dropna().tolist() for kind, row in by_kind[change].iterrows()}
        return Block(title, rows, _where_true(by_kind["p"] < ALPHA))

    blocks = [theirs, *_ours(shown, "layers", of_layers)]
    return grid_html(name, caption, blocks, "BLEU", "layer", "kind")


def _where_true(cells: pd.DataFrame) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in np.argwhere(cells.to_numpy())}


def _ours(shown: Mapping[str, Result], cut: str, block: Callable[..., Block]) -> Iterator[Block]:
    """Yield a block per result, and one of sacrebleu's changes where BLEU is not sacrebleu's own.

    Args:
        cut: what was cut, ``"heads"`` or ``"layers"``.
        block: makes a block from a title, the cuts, and the column of their change of BLEU.
    """
    for label, result in shown.items():
        changes, baseline = pd.DataFrame(result.values[cut]), result.values["baseline"]
        score = f"{baseline['bleu']:.2f} BLEU"
        if "sacrebleu" in baseline:
            score += f" of Moses’ tokens, {baseline['sacrebleu']:.2f} as sacrebleu takes it"
        yield block(f"here: {label}, {result.n_examples:,} test texts, uncut {score}", changes)
        if "delta_sacrebleu" in changes:
            title = (
                "the same as sacrebleu takes BLEU, of the text without Moses’ tokens; not tested"
            )
            yield replace(block(title, changes, "delta_sacrebleu"), significant=())


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


def quality_table(quality: Mapping[str, Result]) -> pd.DataFrame:
    """One row per model and search: BLEU, BLEU without overlapping verses, and chrF."""
    return pd.DataFrame(
        [
            {
                "model": task,
                "search": "greedy" if search == "beam 1" else search,
                "BLEU (95% interval)": estimate(scores["bleu"], scores["bleu_interval"], ".1f"),
                "without verses that share a 10-gram": f"{scores['bleu_without_overlap']:.1f}",
                "chrF": f"{scores['chrf']:.1f}",
                "verses": result.values["n"],
                "of them sharing": result.values["n_overlap"],
            }
            for task, result in quality.items()
            for search, scores in result.values.items()
            if search.startswith("beam ")
        ]
    )


def samples_table(quality: Result) -> pd.DataFrame:
    """The first test verses of a model, its translations, and the references."""
    return pd.DataFrame(quality.values["samples"])[["source", "translation", "reference"]]


def heads_tasks_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """One row per model and task: share of heads removable one by one, and both verdicts on C1."""
    rows = []
    for name, result in shown.items():
        counts, removable = result.values["counts"], result.values["removable"]
        share = counts["removable"] / counts["heads"]
        judged = judge(result, "C1")
        rows.append(
            {
                "model and task": name,
                "texts": f"{result.n_examples:,}",
                "accuracy": f"{result.values['baseline']['accuracy']:.1%}",
                "removable": estimate(share, removable["removable_interval"], ".0%"),
                "power": f"{judged.judged.power or 0:.2f}",
                **both_words(judged),
            }
        )
    return pd.DataFrame(rows)


def domains_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """One row per model and pair of texts: correlations of the same cuts' effects, by each measure.

    Reliability is that of the log-loss, on the text where it is lower.
    """

    def cell(found: Mapping[str, Any]) -> str:
        return estimate(found["r"], found["interval"])

    return pd.DataFrame(
        [
            {
                "model and task": name,
                "other text": spelled(domain),
                "Spearman, loss": cell(pair["loss"]["spearman"]),
                "within layers": cell(pair["loss"]["within"]),
                "Pearson, accuracy": cell(pair["accuracy"]["pearson"]),
                "reliability": f"{min(pair['loss']['reliability']):.2f}",
            }
            for name, result in shown.items()
            for domain, pair in result.values["correlations"].items()
        ]
    )


def curves_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """One row per curve: what is kept at the paper's share, and whether its C3 criterion is met.

    Further columns are the share of heads removable at a loss of 2%, and the rule's power.
    """
    rows = []
    for name, result in shown.items():
        row, removable = judge(result, "C3"), prunable_at(result.values)
        rows.append(
            {
                "model and task": name,
                "kept": judged_text(row.judged, ".1%"),
                f"removable at {SHOWN_TOLERANCE:.0%} loss": estimate(
                    removable["share"], removable["interval"], ".0%"
                ),
                "power": f"{row.judged.power or 0:.2f}",
                **both_words(row),
            }
        )
    return pd.DataFrame(rows).drop(columns="ours", errors="ignore")


_AGAINST = {
    "oracle leak-free": "one-by-one, other text",
    "oracle": "one-by-one, test set",
    "importance unnormalised": "not normalised",
}


def orders_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """One row per pruning curve: importance minus other orders over 0 to 50%, and C8's verdicts.

    A curve without any of the other orders has no row.
    """
    rows = []
    for name, result in shown.items():
        change = signed if result.metric == "BLEU" else points
        areas = result.values["early_area_differences"]
        if not areas.keys() & _AGAINST.keys():
            continue
        gains = {
            title: change(areas[order]["difference"], areas[order]["interval"])
            for order, title in _AGAINST.items()
            if order in areas
        }
        row = judge(result, "C8")
        words = both_words(row) if row else {}
        rows.append({"model and task": name, **dict.fromkeys(_AGAINST.values()), **gains, **words})
    return pd.DataFrame(rows).fillna("–")


def layers_decided(result: Result) -> tuple[int, int]:
    """The numbers of layers that need only one head, and that are shown to need more, as in C2."""
    bound = DELTA_BLEU if result.metric == "BLEU" else DELTA
    layers = result.values["layers"]
    return (
        sum(layer["removable"] for layer in layers),
        sum(layer["interval"][1] < -bound for layer in layers),
    )


def difficulty_table(curves: Mapping[str, Result], one_head: Mapping[str, Result]) -> pd.DataFrame:
    """One row per model and group of MNLI's pairs, grouped by how many of 100 BERTs are right.

    Each group is judged alone by C3's and C1's rules; curves that are not of MNLI are left out.
    """
    return pd.DataFrame(
        [
            {
                "model and task": name,
                "pairs": group.name,
                "number": f"{group.n:,}",
                "accuracy": estimate(group.uncut.value, (group.uncut.low, group.uncut.high), ".1%"),
                "kept at the paper's share": judged_text(group.together, ".1%"),
                "C3's rule": _word(group.together),
                "removable one by one": judged_text(group.one_at_a_time, ".0%"),
                "C1's rule": _word(group.one_at_a_time),
            }
            for name, curve in curves.items()
            for group in strata(curve, one_head.get(name))
        ]
    )


def _word(judged: Judged) -> str:
    """A rule's word with its power, by which readers can tell how much it says."""
    return judged.word if judged.power is None else f"{judged.word} (power {judged.power:.2f})"


def sizes_table(table4: Result) -> pd.DataFrame:
    """Parameters, attention's share, file, and memory to load and run a batch, before and after."""
    models = {"finetuned": spelled(table4.model), "shape": BERT_SHAPE}
    return pd.DataFrame(
        [
            {
                "model": title,
                "variant": variant,
                "parameters (M)": f"{values['parameters'][i] / 1e6:.1f}",
                "in attention": f"{values['attention'][i] / values['parameters'][i]:.0%}",
                "file (MB)": f"{values['file'][i] / 1e6:.1f}",
                "memory (MB)": f"{values['memory'][i] / 1e6:.0f}",
            }
            for model, title in models.items()
            for values in (table4.values[model],)
            for i, variant in enumerate(values["columns"])
        ]
    )


def bench_table(path: Path) -> pd.DataFrame:
    """Ratios of seconds that ``headprune bench`` stored, with floor and target; empty if none.

    Each machine has a column of ratios, the one timed last first. Floors or answers that differ are
    listed in the same order.
    """
    runs = read_runs(path)
    ratios = [f"ratio (quartiles){_on(run, runs)}" for run in runs] or ["ratio (quartiles)"]
    columns = ["time of", "over the time of", *ratios, "floor", "target", "met"]
    timed = [{(row["what"], row["reference"]): row for row in run["rows"]} for run in runs]
    rows = []
    for what in dict.fromkeys(name for run in timed for name in run):
        present = [run[what] for run in timed if what in run]
        shown = (
            estimate(run[what]["ratio"], run[what]["quartiles"]) if what in run else "–"
            for run in timed
        )
        floor = _told(f"{row['floor']:.2f}" if row["floor"] else "–" for row in present)
        target, met = present[0]["target"] or "–", _told(map(_met, present))
        rows.append((*what, *shown, floor, target, met))
    table = pd.DataFrame(rows, columns=columns)
    table.attrs["prose"] = True  # two columns of words
    return table


def _on(run: dict, runs: list[dict]) -> str:
    cpu = run["provenance"]["hardware"]["cpu"]
    name = cpu.replace("(R)", "").removesuffix(" Processor")
    return f", {name}" if len(runs) > 1 else ""


def _told(values: Iterable[str]) -> str:
    """The values of all machines, given once if they are the same."""
    values = list(values)
    return values[0] if len(set(values)) == 1 else ", ".join(values)


def _met(row: dict) -> str:
    if not (target := row["target"]):
        return "–"
    bound = float(target.split()[-1])
    return "yes" if (row["ratio"] <= bound if "most" in target else row["ratio"] >= bound) else "no"


def speeds_grid(shown: Mapping[str, Result], name: str, caption: str) -> HTML:
    """Table 4 in the paper's form: a column per batch size, a block per model, the paper's first.

    Args:
        shown: name -> result of Table 4; the block with random weights of BERT-base's shape is the
            last one that was timed on a machine.
        name: number of the table on the page.
        caption: what it shows, as HTML.
    """
    published = paper("table4")
    pairs = [published[which] for which in ("original", "pruned50")]
    blocks = {
        "the paper: BERT-base, GTX 1080 Ti": {
            size: {name: [pair[name][i] for pair in pairs] for name in ("mean", "sd")}
            for i, size in enumerate(published["batch_size"])
        }
    }
    # a model of profile smoke is too small to say anything about speed
    timed = [(label, one, "finetuned") for label, one in shown.items() if one.profile != "smoke"]
    timed += [(f"{BERT_SHAPE}, random weights", one, "shape") for one in shown.values()]
    for label, result, model in timed:
        blocks[f"here: {label}, {machine(result.provenance['hardware'])}"] = {
            row["batch_size"]: row for row in result.values[model]["speed"]
        }
    sizes = sorted({size for block in blocks.values() for size in block})
    shown_blocks, csv_rows = [], []
    for title, block in blocks.items():
        rows = {
            label: [_speed(block.get(size), which) for size in sizes]
            for which, label in enumerate(("all heads", "half removed", "times as fast"))
        }
        tagged = {label: [f"<td>{cell}</td>" for cell in cells] for label, cells in rows.items()}
        shown_blocks.append((title, tagged))
        csv_rows += [
            {"model": title, "": label, **dict(zip(sizes, cells, strict=True))}
            for label, cells in rows.items()
        ]
    markup = blocks_html("batch size", "batch of", sizes, shown_blocks)
    return HTML(framed(markup, name, caption, pd.DataFrame(csv_rows)))


def _speed(found: Mapping[str, Any] | None, which: int) -> str:
    """A cell: examples per second with all or half of the heads, or the ratio of the two."""
    if found is None:
        return "–"
    if which < 2:
        return f"{found['mean'][which]:.1f} ± {found['sd'][which]:.1f}"
    if "ratio" in found:
        return estimate(found["ratio"], found["interval"])
    return f"{found['mean'][1] / found['mean'][0]:.2f}"
