"""Ours beside the paper's: published values, the verdict of each claim, and tables for pages."""

from __future__ import annotations

import html
from functools import cache

import pandas as pd
import yaml

from headprune_lib import results, verdicts
from headprune_lib.paths import reference_root
from headprune_lib.results import Result
from headprune_lib.verdicts import C3_MINIMUM, Verdict


@cache
def _published() -> dict:
    return yaml.safe_load((reference_root() / "paper_values.yml").read_text("utf-8"))


def paper(artifact: str) -> dict:
    """The published values of a table or figure, layers and heads counted from 1."""
    return _published()[artifact]


def verdict(result: Result) -> Verdict:
    """The claim that an artifact decides, judged by the rules fixed beforehand.

    Raises:
        KeyError: no claim rests on this artifact alone.
    """
    values = result.values
    if result.artifact == "figure2b":  # the mean over domains would hide one that disagrees
        rows = [_c7(values, domain) for domain in values["correlations"]]
        return verdicts.combine(rows)
    return {
        "figure1b": lambda: verdicts.c1(values),
        "table6": lambda: verdicts.c2(values),
        "figure3b": lambda: verdicts.c3(
            values["prunable"]["importance"]["2%"]["share"],
            *values["prunable"]["importance"]["2%"]["interval"], C3_MINIMUM["encoder"]),
        "table4": lambda: verdicts.c6(_ratios(values["finetuned"])),
    }[result.artifact]()


def verdict_c8(figure3b: Result) -> Verdict:
    """C8: importance against the one-by-one order of the paper (the oracle on the test set)."""
    found = figure3b.values["area_differences"]["oracle"]
    return verdicts.c8(found["difference"], *found["interval"])


def _c7(values: dict, domain: str) -> Verdict:
    found = values["correlations"][domain]["accuracy"]["pearson"]
    return verdicts.c7(found["r"], *found["interval"], evidence=(f"figure2b {domain}",))


def _ratios(values: dict) -> dict:
    return {row["batch_size"]: {"ratio": row["ratio"], "low": row["interval"][0],
                                "high": row["interval"][1]} for row in values["speed"]}


def all_verdicts(profile: str = "default") -> list[Verdict]:
    """C1 to C8 from the stored results of a profile; ``not run`` where one is not there."""
    def stored(artifact: str) -> Result | None:
        try:
            return results.load(artifact, profile)
        except FileNotFoundError:
            return None

    found = {name: stored(name) for name in ("figure1b", "table6", "figure3b", "table4", "figure2b")}
    judged = {
        "C1": verdict(found["figure1b"]) if found["figure1b"] else verdicts.c1(None),
        "C2": verdict(found["table6"]) if found["table6"] else verdicts.c2(None),
        "C3": verdict(found["figure3b"]) if found["figure3b"] else
        verdicts.c3(None, None, None, C3_MINIMUM["encoder"]),
        "C4": verdicts.c4(None, None),
        "C5": verdicts.c5(None, None),
        "C6": verdict(found["table4"]) if found["table4"] else verdicts.c6(None),
        "C7": verdict(found["figure2b"]) if found["figure2b"] else verdicts.c7(None, None, None),
        "C8": verdict_c8(found["figure3b"]) if found["figure3b"] else
        verdicts.c8(None, None, None),
    }
    return list(judged.values())


def verdict_table(judged: list[Verdict]) -> pd.DataFrame:
    """One row a verdict: claim, where, what the paper found, what we measured, the word."""
    claims = {claim.id: claim for claim in verdicts.claims()}
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
