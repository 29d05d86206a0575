"""The command that removes heads of a model of one's own."""

from __future__ import annotations

import copy
import json
import warnings
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headprune_lib.cli.app import Device, app, check_new, refuse, refusing, short
from headprune_lib.cli.bounds import Bound, Budget, one_bound, taken
from headprune_lib.cli.commands import (
    PANEL,
    AsJson,
    BatchSize,
    By,
    Data,
    MaxLength,
    Model,
    Normalise,
    Normalised,
    made_batches,
    prepared,
    scores_of,
)

if TYPE_CHECKING:  # imported where it is needed: --help must not wait for torch
    from headprune_lib.budgets import Cut

_MOST_ROWS = 12

BOUNDS = "How many heads go: exactly one of these"


class GroupScore(StrEnum):
    """What heads that go together are ranked by."""

    MEAN = "mean"
    SUM = "sum"


def _bound(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=BOUNDS)


@app.command(rich_help_panel=PANEL)
def prune(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the pruned model.")],
    amount: Annotated[float | None, _bound("Share of the heads that goes, 0 to 1.")] = None,
    parameters: Annotated[
        float | None, _bound("Parameters left at most: a number, or up to 1 a share of them.")
    ] = None,
    cache_bytes: Annotated[
        float | None, _bound("Bytes of keys and values left at most, with --at.")
    ] = None,
    seconds: Annotated[
        float | None,
        _bound("Seconds of a pass left at most, with --at; by a table measured layer by layer."),
    ] = None,
    lose_points: Annotated[
        float | None, _bound("Points of accuracy lost at most, on --held-out.")
    ] = None,
    lose_nats: Annotated[float | None, _bound("Nats of loss more at most, on --held-out.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="BxT", help="Examples x tokens, such as 16x128.")
    ] = None,
    held_out: Annotated[
        Path | None, typer.Option(help="Text to choose by, neither DATA nor --test.")
    ] = None,
    by: By = "importance",
    normalize: Normalised = Normalise.OWN,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Only heads of this kind, as headprune inspect names it; may be given several times."
        ),
    ] = None,
    keep_at_least: Annotated[int, typer.Option(help="Heads that each layer keeps.")] = 0,
    per_group: Annotated[
        bool,
        typer.Option(
            "--per-group",
            help="Of heads that share a key and value head take equally many of each group, "
            "in place of whole groups.",
        ),
    ] = False,
    uniform: Annotated[
        bool,
        typer.Option(
            "--uniform", help="As many heads in each layer, for headprune export; with --amount."
        ),
    ] = False,
    group_score: Annotated[
        GroupScore, typer.Option(help="Rank heads that go together by this of their scores.")
    ] = GroupScore.MEAN,
    tuned: Annotated[
        bool,
        typer.Option(
            "--tune-mask",
            help="Fit a gate of each head that stays on DATA, so that layers write what they wrote "
            "before, and fold it into the weights.",
        ),
    ] = False,
    test: Annotated[
        Path | None, typer.Option(help="Another file for quality and speed; DATA if left out.")
    ] = None,
    with_bleu: Annotated[
        bool, typer.Option("--bleu", help="Translate the text too, before and after, for BLEU.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="A new .html file: map of heads, curves, before and after.")
    ] = None,
    batch_size: BatchSize = 32,
    max_length: MaxLength = 128,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Remove the heads that a criterion scores lowest and write the model to a new folder.

    Example: headprune prune ./my-model train.tsv ./smaller --amount 0.4 --test dev.tsv
    """
    bounds = {
        "--amount": amount,
        "--parameters": parameters,
        "--cache-bytes": cache_bytes,
        "--seconds": seconds,
        "--lose-points": lose_points,
        "--lose-nats": lose_nats,
    }
    with refusing():  # before torch is imported
        bound = one_bound(bounds, at, held_out)
        if uniform and (bound.option != "--amount" or per_group or group_score != "mean"):
            refuse("--uniform goes with --amount alone, by the mean of whole groups")
        check_new(out)
        if report is not None:
            _check_report(report, out)

    from headprune_lib import (
        fold_gates,
        full_mask,
        prune_heads,
        prune_mask,
        save_pruned,
        tune_mask,
        uniform_mask,
    )
    from headprune_lib.cli.bleu import bleu, check_bleu
    from headprune_lib.cli.quality import measure
    from headprune_lib.cli.removable import check_amount, check_some_can_go, staying
    from headprune_lib.cli.report import page, written
    from headprune_lib.cli.text_batches import numbered_batches
    from headprune_lib.cli.text_files import read_rows
    from headprune_lib.criteria import get_criterion
    from headprune_lib.orders import prune_steps
    from headprune_lib.saving import new_folder

    with refusing():
        get_criterion(by)
        loaded, tokenizer, batches = prepared(model, data, batch_size, max_length, device)
        if with_bleu:
            check_bleu(loaded)
        tested, held = (
            made_batches(loaded, tokenizer, path, batch_size, max_length) if path else None
            for path in (test, bound.held_out)
        )
        tested = tested or batches
        rules: dict[str, Any] = {
            "kinds": kind,
            "keep_at_least": keep_at_least,
            "per_group": per_group,
            "group_score": group_score.value,
        }
        choose = (
            partial(uniform_mask, kinds=kind, keep_at_least=max(keep_at_least, 1))
            if uniform
            else partial(prune_mask, **rules)
        )
        # what is wrong with the bounds is said before minutes are spent on scores
        every = full_mask(loaded)
        possible = prune_steps(loaded, every, **rules)
        check_some_can_go(loaded, possible, kind)
        budget = Budget(bound, loaded, possible, held or [])
        with warnings.catch_warnings(action="ignore"):  # said once, of the scores, below
            check_amount(possible, amount or 0, choose(loaded, every, amount or 0), uniform)
        scores = scores_of(loaded, tokenizer, batches, by, normalize)
        steps = prune_steps(loaded, scores, **rules)
        with warnings.catch_warnings(record=True) as less:
            warnings.simplefilter("always")
            mask = choose(loaded, scores, amount or 0)
        for said in dict.fromkeys(str(one.message) for one in less):
            typer.echo(f"headprune: {said}", err=True)
        cut = budget.cut(steps, mask)
        smaller = copy.deepcopy(loaded)
        if tuned:
            fold_gates(smaller, tune_mask(loaded, cut.mask, batches))
        prune_heads(smaller, cut.mask)
        both = {"before": loaded, "after": smaller}
        measured = measure(both, tested)
        if with_bleu:
            rows = read_rows(test or data)
            numbered = numbered_batches(loaded, tokenizer, rows, batch_size, max_length)
            for moment, one in both.items():
                figures = {"bleu": bleu(one, tokenizer, numbered, rows.targets or [], max_length)}
                measured[moment] = figures | measured[moment]
        html = (
            page(loaded, smaller, budget, cut, scores, taken(steps, cut.mask), tested, measured,
                 names={"model": model, "by": by, "measured_on": str(test or data)})
            if report
            else None
        )  # fmt: skip
        with new_folder(out) as staged:
            save_pruned(smaller, staged)
            tokenizer.save_pretrained(staged)
            if report and html is not None:
                written(report, html)
    walked = _walked(budget, cut, measured["before"]["heads"])
    if as_json:
        said = {"model": str(out), "by": by, "measured_on": str(test or data)}
        said |= {"bound": {"option": bound.option, "value": bound.value}, "mask_tuned": tuned}
        said |= {"walked": walked}
        typer.echo(json.dumps(said | measured, indent=1))
        return
    if walked:
        typer.echo(_curve(bound, walked, cut) + "\n")
    if stay := staying(loaded, kind):
        typer.echo(stay + "\n")
    typer.echo(_compared(measured))
    if tuned:
        typer.echo(f"gates of the heads that stay were fitted on {data}")
    typer.echo(f"measured on {test or data}; written to {short(out)}")
    if report:
        typer.echo(f"report: {short(report)}")


def _check_report(report: Path, out: Path) -> None:
    if report.resolve() == out.resolve():
        refuse(f"{report} is where the pruned model goes; name another file for the report")
    if report.exists():
        refuse(f"{report} is there already and is not overwritten; name a new file")
    if not report.parent.is_dir():
        refuse(f"{report.parent} is no folder to write {report.name} into")


def _walked(budget: Budget, cut: Cut, n_heads: float) -> list[dict[str, float]]:
    """Every place that was looked at, in order of heads gone."""
    return [
        {
            "heads gone": point.heads,
            "heads left": int(n_heads) - point.heads,
            budget.bound.title: budget.shown(point.value),
        }
        for point in cut.curve
    ]


def _curve(bound: Bound, walked: list[dict[str, float]], cut: Cut) -> str:
    """The curve as text, of a long one some places; the last that was taken is marked."""
    from headprune_lib.cli.tables import printed

    chosen = next(i for i, point in enumerate(cut.curve) if point.steps == cut.steps)
    stride = -(-len(walked) // _MOST_ROWS)
    shown = [
        i for i in range(len(walked)) if i % stride == 0 or i in (chosen - 1, chosen, chosen + 1)
    ]
    digits = "{:,.0f}" if bound.option in ("--parameters", "--cache-bytes") else "{:.4f}"
    return printed(
        [
            walked[i]
            | {bound.title: digits.format(walked[i][bound.title]).rjust(len(bound.title))}
            | {"": "<- taken" if i == chosen else ""}
            for i in shown
        ]
    )


def _compared(measured: dict[str, dict[str, float]]) -> str:
    from headprune_lib.cli.tables import TITLES, printed, shown

    return printed(
        [
            {"": TITLES[name]}
            | {moment: shown(name, figures[name]).rjust(12) for moment, figures in measured.items()}
            for name in measured["before"]
        ]
    )
