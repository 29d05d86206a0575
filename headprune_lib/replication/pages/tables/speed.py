"""Speed: Table 4 in the paper's form, and the table of ``headprune bench``."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
from IPython.display import HTML

from headprune_lib.replication.bench import read_runs
from headprune_lib.replication.pages.tables.markup import framed
from headprune_lib.replication.pages.tables.pages import estimate
from headprune_lib.replication.published import paper
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import machine

__all__ = [
    "bench_table",
    "precision_table",
    "speeds_grid",
]


def bench_table(path: Path) -> pd.DataFrame:
    """What ``headprune bench`` stored: ratios of seconds, with floor and target; empty if nothing.

    Each machine has a column of ratios, the one that was timed last the first; where floors or
    answers differ they stand in the same order.
    """
    runs = read_runs(path)
    ratios = [f"ratio (quartiles){_on(run, runs)}" for run in runs] or ["ratio (quartiles)"]
    columns = ["time of", "over the time of", *ratios, "floor", "target", "met"]
    timed = [{(row["what"], row["reference"]): row for row in run["rows"]} for run in runs]
    rows, paces = [], []
    for what in dict.fromkeys(name for one in timed for name in one):
        found = [one.get(what) for one in timed]
        there = [row for row in found if row is not None]
        rows.append(
            (
                *what,
                *(
                    "–" if row is None else estimate(row["ratio"], row["quartiles"])
                    for row in found
                ),
                _told(f"{row['floor']:.2f}" if row["floor"] else "–" for row in there),
                there[0]["target"] or "–",
                _told(_met(row) for row in there),
            )
        )
        paces.append(_pace(there[0]))
    table = pd.DataFrame(rows, columns=columns)
    table.attrs["prose"] = True  # two columns of words
    if any(paces):
        table["each a second"] = paces
    return table


def _pace(row: dict) -> str:
    if not (n := row.get("n")):
        return ""
    return f"{n / row['seconds']:.3g}, {n / row['reference_seconds']:.3g}"


def _on(run: dict, runs: list[dict]) -> str:
    cpu = run["provenance"]["hardware"]["cpu"]
    name = cpu.replace("(R)", "").removesuffix(" Processor")
    return f", {name}" if len(runs) > 1 else ""


def _told(values: Iterable[str]) -> str:
    """What machines have, once where it is the same."""
    values = list(values)
    return values[0] if len(set(values)) == 1 else ", ".join(values)


def _met(row: dict) -> str:
    if not (target := row["target"]):
        return "–"
    bound = float(target.split()[-1])
    return "yes" if (row["ratio"] <= bound if "most" in target else row["ratio"] >= bound) else "no"


def precision_table(found: Result) -> pd.DataFrame:
    """Answers and losses in bfloat16 beside those in float32, a row a share of heads masked."""
    return pd.DataFrame(
        [
            (
                f"{row['share']:.0%}",
                f"{row['float32']:.2%}",
                f"{row['bfloat16']:.2%}",
                f"{row['answers']:.2%}",
                f"{row['loss_apart']:.4f}",
            )
            for row in found.values["rows"]
        ],
        columns=[
            "heads masked",
            "accuracy, float32",
            "accuracy, bfloat16",
            "answers alike",
            "loss apart (nats, mean)",
        ],
    )


def speeds_grid(shown: Mapping[str, Result], name: str, caption: str) -> HTML:
    """Table 4 in the paper's form: a column a batch size, a block a model, the paper's first.

    Args:
        shown: name -> result of Table 4; the one with random weights of BERT-base's shape is the
            last one that was timed on a machine.
        name: number of the table on the page.
        caption: what is seen in it, as HTML.
    """
    published = paper("table4")
    pairs = [published[which] for which in ("original", "pruned50")]
    blocks = {
        "the paper: BERT-base, GTX 1080 Ti": {
            size: ([pair["mean"][i] for pair in pairs], [pair["sd"][i] for pair in pairs], None)
            for i, size in enumerate(published["batch_size"])
        }
    }
    timed = {
        f"{label}, {machine(result.provenance['hardware'])}": result.values["finetuned"]
        for label, result in shown.items()
    }
    timed |= {
        f"BERT-base's shape, random weights, {machine(result.provenance['hardware'])}": (
            result.values["shape"]
        )
        for result in shown.values()
    }
    for label, values in timed.items():
        blocks[f"here: {label}"] = {
            row["batch_size"]: (row["mean"], row["sd"], (row["ratio"], row["interval"]))
            for row in values["speed"]
        }
    sizes = sorted({size for block in blocks.values() for size in block})
    heads = "".join(f'<th scope="col"><span class="heard">batch of </span>{s}</th>' for s in sizes)
    markup = f'<table class="grid"><thead><tr><th scope="col">batch size</th>{heads}</tr></thead>'
    taken = []
    for title, block in blocks.items():
        markup += (
            f'<tbody><tr><th class="block" scope="rowgroup" colspan="{len(sizes) + 1}">'
            f"{html.escape(title)}</th></tr>"
        )
        for which, label in enumerate(("all heads", "half removed", "times as fast")):
            cells = [_speed(block.get(size), which) for size in sizes]
            markup += f'<tr><th scope="row">{label}</th>' + "".join(
                f"<td>{cell}</td>" for cell in cells
            )
            markup += "</tr>"
            taken.append({"model": title, "": label, **dict(zip(sizes, cells, strict=True))})
        markup += "</tbody>"
    return HTML(framed(markup + "</table>", name, caption, pd.DataFrame(taken)))


def _speed(found: tuple | None, which: int) -> str:
    """A cell: examples a second with all or half of the heads, or the ratio of the two."""
    if found is None:
        return "–"
    mean, sd, ratio = found
    if which < 2:
        return f"{mean[which]:.1f} ± {sd[which]:.1f}"
    return estimate(*ratio) if ratio else f"{mean[1] / mean[0]:.2f}"
