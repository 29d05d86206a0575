"""Ours beside the paper's: published values, and tables for pages."""

from __future__ import annotations

import html
import json
from functools import cache
from pathlib import Path

import pandas as pd
import yaml

from headprune_lib import verdicts
from headprune_lib.claims import CLAIMS
from headprune_lib.paths import reference_root
from headprune_lib.results import Result
from headprune_lib.verdicts import Verdict


@cache
def _published() -> dict:
    return yaml.safe_load((reference_root() / "paper_values.yml").read_text("utf-8"))


def paper(artifact: str) -> dict:
    """The published values of a table or figure, layers and heads counted from 1."""
    return _published()[artifact]


def verdict_table(judged: list[Verdict]) -> pd.DataFrame:
    """One row a verdict: claim, where, what the paper found, what we measured, the word."""
    claims = {claim.id: claim for claim in CLAIMS}
    return pd.DataFrame([
        {
            "claim": f"{v.claim}. {claims[v.claim].title}",
            "paper": f"§{claims[v.claim].section}: {claims[v.claim].paper_value}",
            "here": v.measured,
            "verdict": v.word,
        }
        for v in judged
    ])


def as_html(table: pd.DataFrame) -> str:
    """A table for a page; a column ``verdict`` is shown as a coloured word."""
    shown = table.copy()
    for column in shown.columns:
        if column == "verdict":
            shown[column] = [
                f'<span class="verdict verdict-{word.replace(" ", "-")}">{word}</span>'
                for word in shown[column]]
        else:
            shown[column] = [html.escape(cell) if isinstance(cell, str) else cell
                             for cell in shown[column]]
    return shown.to_html(index=False, escape=False, border=0)


def points(delta: float, interval: list[float] | None = None) -> str:
    """A change of accuracy in percentage points, with its interval.

    >>> points(-0.0123, [-0.02, 0.001])
    '−1.23 [−2.00, +0.10]'
    """
    def signed(value: float) -> str:
        return f"{100 * value:+.2f}".replace("-", "−")

    return signed(delta) + (f" [{signed(interval[0])}, {signed(interval[1])}]" if interval else "")


def layers_table(table3: Result, table6: Result) -> pd.DataFrame:
    """Tables 3 and 6 side by side: one row a layer; changes of accuracy in points."""
    rows = []
    for ours, free in zip(table3.values["layers"], table6.values["layers"], strict=True):
        rows.append({
            "layer": ours["layer"] + 1,
            "best head (test)": ours["head"] + 1,
            "Table 3: change (95% interval)": points(ours["delta"], ours["interval"]),
            "best head (train)": free["head"] + 1,
            "Table 6: change (95% interval)": points(free["delta"], free["interval"]),
            "p (Table 6)": f"{free['p']:.3f}",
            "p, Holm": f"{free['p_holm']:.3f}",
            "within 1 point": "yes" if free["removable"] else
            "no" if free["interval"][1] < -verdicts.DELTA else "open",
        })
    return pd.DataFrame(rows)


def domains_table(figure2b: Result) -> pd.DataFrame:
    """One row a domain and measure: correlation of effects, reliabilities, ceiling."""
    values, rows = figure2b.values, []
    for domain, measures in values["correlations"].items():
        for measure, found in measures.items():
            low, high = found["pearson"]["interval"]
            rows.append({
                "domain": domain,
                "accuracy there": f"{values['baselines'][domain]['accuracy']:.3f}",
                "effect on": measure,
                "Pearson r (95% interval)": f"{found['pearson']['r']:.2f} [{low:.2f}, {high:.2f}]",
                "Spearman": f"{found['spearman']['r']:.2f}",
                "reliability here, there": " and ".join(f"{r:.2f}" for r in found["reliability"]),
                "ceiling of r": f"{found['ceiling']:.2f}",
            })
    return pd.DataFrame(rows)


def orders_table(figure3b: Result) -> pd.DataFrame:
    """One row an order: share that goes at each tolerance, and the area against importance."""
    values, rows = figure3b.values, []
    for name, found in values["prunable"].items():
        row = {"order": name, "runs": len(values["curves"][name]["runs"])}
        for tolerance, share in found.items():
            low, high = share["interval"]
            row[f"goes at {tolerance} loss"] = f"{share['share']:.0%} [{low:.0%}, {high:.0%}]"
        difference = values["area_differences"].get(name)
        row["importance minus this, area (points)"] = (
            points(difference["difference"], difference["interval"]) if difference else "")
        rows.append(row)
    return pd.DataFrame(rows)


def speed_table(table4: Result, model: str) -> pd.DataFrame:
    """Table 4: examples a second, mean ± s.d. of the runs, and the paired ratio."""
    published = paper("table4")
    ratios = {size: pruned / original for size, original, pruned in zip(
        published["batch_size"], published["original"]["mean"], published["pruned50"]["mean"],
        strict=True)}
    return pd.DataFrame([
        {
            "batch": row["batch_size"],
            "unpruned (examples/s)": f"{row['mean'][0]:.1f} ± {row['sd'][0]:.1f}",
            "half removed (examples/s)": f"{row['mean'][1]:.1f} ± {row['sd'][1]:.1f}",
            "times as fast (95% interval)":
                f"{row['ratio']:.2f} [{row['interval'][0]:.2f}, {row['interval'][1]:.2f}]",
            "paper": f"{ratios[row['batch_size']]:.2f}" if row["batch_size"] in ratios else "–",
        }
        for row in table4.values[model]["speed"]
    ])


def bench_table(path: Path) -> pd.DataFrame:
    """What ``headprune bench`` stored: ratios of seconds, with floor and target; empty if nothing."""
    columns = ["time of", "over the time of", "ratio (quartiles)", "floor", "target", "met"]
    if not path.is_file():
        return pd.DataFrame(columns=columns)
    rows = []
    for row in json.loads(path.read_text("utf-8"))["rows"]:
        target, (low, high) = row["target"], row["quartiles"]
        bound = float(target.split()[-1]) if target else 0.0
        met = row["ratio"] <= bound if "most" in target else row["ratio"] >= bound
        rows.append((row["what"], row["reference"], f"{row['ratio']:.2f} [{low:.2f}, {high:.2f}]",
                     f"{row['floor']:.2f}" if row["floor"] else "–", target or "–",
                     ("yes" if met else "no") if target else "–"))
    return pd.DataFrame(rows, columns=columns)


def sizes_table(table4: Result) -> pd.DataFrame:
    """Parameters, attention's share of them, file and memory, before and after."""
    rows = []
    for model in ("finetuned", "shape"):
        values = table4.values[model]
        for i, variant in enumerate(values["columns"]):
            rows.append({
                "model": model,
                "variant": variant,
                "parameters (M)": f"{values['parameters'][i] / 1e6:.1f}",
                "in attention": f"{values['attention'][i] / values['parameters'][i]:.0%}",
                "file (MB)": f"{values['file'][i] / 1e6:.1f}",
                "memory to load and run one batch (MB)": f"{values['memory'][i] / 1e6:.0f}",
            })
    return pd.DataFrame(rows)
