"""Tables of the paper's sections, the paper's values next to ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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
        _from_one(dict(enumerate(published["delta_bleu"], start=1))),
        {*map(tuple, published["significant"])},
    )
    ours = _ours(shown, "heads", ["layer", "head"], "p_paper")
    return grid_html(name, caption, [theirs, *ours], "BLEU", "head", "layer")


def kinds_grid(artifact: str, shown: Mapping[str, Result], name: str, caption: str) -> HTML:
    """Tables 2 and 5: the change of BLEU with each layer reduced to its best head."""
    published = paper(artifact)
    theirs = Block(
        f"the paper: WMT en-fr, {'newstest2013' if artifact == 'table2' else 'newstest2014'}",
        _from_one({kind: published[kind]["delta_bleu"] for kind in KINDS}),
        {(kind, layer) for kind in KINDS for layer in published[kind]["significant"]},
    )
    ours = _ours(shown, "layers", ["kind", "layer"], "p")
    return grid_html(name, caption, [theirs, *ours], "BLEU", "layer", "kind")


def _from_one(rows: Mapping[Any, Sequence[float]]) -> pd.DataFrame:
    """Changes by the name of their row, the columns counted from 1."""
    return pd.DataFrame.from_dict(rows, orient="index").rename(columns=lambda column: column + 1)


def _ours(shown: Mapping[str, Result], cut: str, place: list[str], p: str) -> Iterator[Block]:
    """Yield a block per result, and one of sacrebleu's changes where BLEU is not sacrebleu's own.

    ``cut`` is ``"heads"``, of which the encoder's are shown, or ``"layers"``; ``place`` names a row
    and a column.
    """
    for label, result in shown.items():
        cuts, baseline = pd.DataFrame(result.values[cut]), result.values["baseline"]
        cuts["layer"] += 1
        cuts["head"] += 1
        if cut == "heads":
            cuts = cuts[cuts.kind == "enc-enc"]
        significant = {*cuts.loc[cuts[p] < ALPHA, place].itertuples(index=False, name=None)}
        grids = cuts.pivot(index=place[0], columns=place[1]).reindex(cuts[place[0]].unique())
        score = f"{baseline['bleu']:.2f} BLEU"
        if "sacrebleu" in baseline:
            score += f" of Moses’ tokens, {baseline['sacrebleu']:.2f} as sacrebleu takes it"
        title = f"here: {label}, {result.n_examples:,} test texts, uncut {score}"
        yield Block(title, grids["delta"], significant)
        if "delta_sacrebleu" in cuts:
            title = "the same as sacrebleu takes BLEU, of the text without Moses’ tokens"
            yield Block(f"{title}; not tested", grids["delta_sacrebleu"])


def layers_grid(artifact: str, shown: Mapping[str, Result], name: str, caption: str) -> HTML:
    """Tables 3 and 6: the change of accuracy with each layer reduced to its best head."""
    published, theirs = paper(artifact), "the paper: BERT-base, MNLI"
    rows = {theirs: published["delta_accuracy_percent"]}
    significant = {(theirs, layer) for layer in published["significant"]}
    for label, result in shown.items():
        layers = result.values["layers"]
        rows[label] = [100 * row["delta"] for row in layers]
        significant |= {(label, row["layer"] + 1) for row in layers if row["p"] < ALPHA}
    block = Block("change of accuracy in points", _from_one(rows), significant)
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
        gains = {
            title: change(areas[order]["difference"], areas[order]["interval"])
            if order in areas
            else "–"
            for order, title in _AGAINST.items()
        }
        if areas.keys() & _AGAINST.keys():
            row = judge(result, "C8")
            rows.append({"model and task": name, **gains, **(both_words(row) if row else {})})
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

    BERT-base's shape with random weights has a block per machine, as it was timed there last.
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
    tables = {
        title: pd.DataFrame(
            {size: _speeds(block.get(size)) for size in sizes},
            index=["all heads", "half removed", "times as fast"],
        )
        for title, block in blocks.items()
    }
    cells = [(title, table.map("<td>{}</td>".format)) for title, table in tables.items()]
    markup = blocks_html("batch size", "batch of", sizes, cells)
    csv = pd.concat(tables, names=["model", ""]).reset_index()
    return HTML(framed(markup, name, caption, csv))


def _speeds(row: Mapping[str, Any] | None) -> list[str]:
    """Examples per second with all heads and with half of them, and the ratio of the two."""
    if row is None:
        return ["–"] * 3
    whole, half = row["mean"]
    speeds = [f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(row["mean"], row["sd"], strict=True)]
    ratio = estimate(row["ratio"], row["interval"]) if "ratio" in row else f"{half / whole:.2f}"
    return [*speeds, ratio]
