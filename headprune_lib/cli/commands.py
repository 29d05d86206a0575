"""Commands for a model of your own."""

from __future__ import annotations

import contextlib
import copy
import json
import warnings
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import headprune_lib as hp
from headprune_lib.cli.app import app, check_new, check_table, refuse, short, user_errors
from headprune_lib.cli.bounds import TITLES, one_bound
from headprune_lib.cli.criteria import check_criterion, known_criteria
from headprune_lib.cli.models import check_device, check_model

if TYPE_CHECKING:  # imported where a command needs them: --help must not wait for torch
    from transformers import PreTrainedModel

    from headprune_lib.budgets import BudgetResult
    from headprune_lib.masking import HeadTensors

# Groups of options. A flag names itself, since typer would otherwise add its opposite.
_bound = partial(typer.Option, min=0, rich_help_panel="How many heads are removed: give one")
_with = partial(typer.Option, rich_help_panel="What some bounds need")
_heads = partial(typer.Option, rich_help_panel="How heads are scored and chosen")
_told = partial(typer.Option, rich_help_panel="What is compared and reported")
_text = partial(typer.Option, rich_help_panel="How text is read and the model is run")


# arguments are checked before torch and transformers are imported
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        callback=user_errors()(check_model),
        help="A model folder, a .gguf file, the name of a model on the Hub, or a task that the "
        "replication has weights for, such as reviews.",
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        callback=user_errors()(check_table),
        help="A .tsv, .csv or .jsonl file with the columns text and label; text, text2 and label; "
        "source and target; or text. Other columns are ignored.",
    ),
]
TextColumn = Annotated[
    list[str] | None,
    _text(help="Column of the text, if it has another name. Give it twice for pairs of texts."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
BatchSize = Annotated[int, _text(min=1, help="Examples per batch.")]
Device = Annotated[str, _text(callback=user_errors()(check_device), help="cpu, cuda, …")]
MaxLength = Annotated[int, _text(min=2, help="Longer texts are cut to this many tokens.")]
By = Annotated[
    str,
    _heads(
        metavar="CRITERION",
        callback=user_errors()(check_criterion),
        help="The criterion that scores the heads; `headprune criteria` lists the names.",
    ),
]


# values of options, in lower case
Normalise = StrEnum("Normalise", ["OWN", "L2", "NONE"])
GroupScore = StrEnum("GroupScore", ["MEAN", "SUM"])
Format = StrEnum("Format", ["TRANSFORMERS", "ONNX", "GGUF"])

Normalised = Annotated[
    Normalise,
    _heads(help="Whether scores are divided by their layer's l2 norm; own: as the criterion does."),
]


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command that reports input errors in one line."""
    return app.command(rich_help_panel="A model of your own")(user_errors()(function))


@_command
def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show the attention heads of a model, and the attention modules that are not supported.

    Example: headprune inspect ./my-model
    """
    from headprune_lib.cli.models import load_model
    from headprune_lib.cli.output import layers_table, printed, reasons_table
    from headprune_lib.discovery import discovered

    with warnings.catch_warnings(action="ignore"):  # unsupported modules are listed below
        blocks, refused = discovered(load_model(model))
    not_taken = [{"module": path, "not taken": why} for path, why in refused.items()]
    tables = [layers_table(blocks), reasons_table(blocks), not_taken]
    if as_json:
        typer.echo(printed([row for table in tables for row in table], as_json))
        return
    for row in tables[0]:
        del row["kept"]  # the list of kept heads shows it
    typer.echo("\n\n".join(filter(None, map(printed, tables))))


@_command
def criteria(as_json: AsJson = False) -> None:
    """List the criteria that score heads: the names that --by accepts."""
    from headprune_lib.cli.output import printed

    known = sorted(known_criteria().items())
    rows = [{"name": name, "family": each.family, "scores": each.summary} for name, each in known]
    typer.echo(printed(rows, as_json))


@_command
def score(
    model: Model,
    data: Data,
    by: By = "importance",
    normalize: Normalised = Normalise.OWN,
    text_column: TextColumn = None,
    batch_size: BatchSize = 32,
    max_length: MaxLength = 128,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Score every head of a model on a file, by importance (Eq. 2) or another criterion.

    Example: headprune score ./my-model train.tsv
    """
    from headprune_lib.cli.data import Reader
    from headprune_lib.cli.output import printed, scores_table

    reader = Reader(model, device, batch_size, max_length, text_column)
    scores = reader.scores(reader.batches(data), by, normalize)
    typer.echo(printed(scores_table(scores, by), as_json))


@_command
def prune(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the pruned model.")],
    amount: Annotated[float | None, _bound(max=1, help="Share of the heads to remove.")] = None,
    parameters: Annotated[
        float | None, _bound(help="Keep at most this many parameters, or this share (up to 1).")
    ] = None,
    cache_bytes: Annotated[
        float | None, _bound(help="Keep at most this many bytes of keys and values; needs --at.")
    ] = None,
    seconds: Annotated[
        float | None,
        _bound(help="At most this many seconds a pass, by timings of each layer; needs --at."),
    ] = None,
    lose_points: Annotated[
        float | None, _bound(help="Lose at most this many points of accuracy; needs --held-out.")
    ] = None,
    lose_nats: Annotated[
        float | None,
        _bound(
            help="Add at most this many nats (of a regression, squared error) to the loss; needs "
            "--held-out."
        ),
    ] = None,
    at: Annotated[
        str | None, _with(metavar="BxT", help="Size of a batch: examples x tokens, such as 16x128.")
    ] = None,
    held_out: Annotated[
        Path | None,
        _with(help="File that accuracy or loss is measured on; neither DATA nor --test."),
    ] = None,
    by: By = "importance",
    normalize: Normalised = Normalise.OWN,
    kind: Annotated[
        list[str] | None,
        _heads(
            help="Remove only this kind of heads (`headprune inspect` lists them); may be repeated."
        ),
    ] = None,
    keep_at_least: Annotated[int, _heads(min=0, help="Heads that each layer keeps at least.")] = 0,
    per_group: Annotated[
        bool,
        _heads(
            "--per-group",
            help="Remove equally many heads from each group that shares keys, not whole groups.",
        ),
    ] = False,
    uniform: Annotated[
        bool,
        _heads(
            "--uniform",
            help="Keep equally many heads in each layer, for `headprune export`; needs --amount.",
        ),
    ] = False,
    group_score: Annotated[
        GroupScore, _heads(help="How scores of heads that are removed together are combined.")
    ] = GroupScore.MEAN,
    tuned: Annotated[
        bool,
        _heads("--tune-mask", help="Fit gates of the remaining heads on DATA, and fold them in."),
    ] = False,
    test: Annotated[
        Path | None, _told(help="File that quality and speed are measured on; DATA if left out.")
    ] = None,
    with_bleu: Annotated[
        bool, _told("--bleu", help="Also translate the text, before and after, and show BLEU.")
    ] = False,
    report: Annotated[
        Path | None, _told(help="A new .html file for a report: map of heads, curves, figures.")
    ] = None,
    text_column: TextColumn = None,
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
    # before torch is imported
    bound = one_bound(bounds, at, held_out)
    if uniform and (bound.option != "--amount" or per_group or group_score != "mean"):
        refuse("--uniform works only with --amount, and without --per-group and --group-score sum")
    check_new(out)
    if report is not None:
        if report.is_dir() or report.resolve() == out.resolve():
            refuse(f"{report} is a folder or the same path as OUT. Give a file for the report")
        check_new(report)
    for text in filter(None, (test, held_out)):
        check_table(text)

    from headprune_lib.cli.data import Reader
    from headprune_lib.cli.output import compared_table, printed
    from headprune_lib.cli.quality import Budget, bleu, check_bleu, measure, removed_units
    from headprune_lib.cli.report import page
    from headprune_lib.saving import new_folder
    from headprune_lib.selection import removal_units
    from headprune_lib.utils import staged_path

    reader = Reader(model, device, batch_size, max_length, text_column)
    loaded, batches = reader.model, reader.batches(data)
    if with_bleu:
        check_bleu(loaded)
    measured_on = test or data
    tested = reader.batches(test) if test else batches
    held = reader.batches(held_out) if held_out else []
    rules = {
        "kinds": kind,
        "keep_at_least": keep_at_least,
        "per_group": per_group,
        "group_score": group_score.value,
    }
    choose = partial(hp.prune_mask, loaded, **rules)
    if uniform:
        choose = partial(hp.uniform_mask, loaded, kinds=kind, keep_at_least=max(keep_at_least, 1))
    # errors in the bounds are reported before minutes are spent on scoring
    every = hp.ones_mask(loaded)
    possible = removal_units(loaded, every, **rules)
    stay = _not_prunable(loaded, kind)
    if not possible:
        nothing = stay or "lower --keep-at-least, or give another --kind"
        raise ValueError(f"no head of {type(loaded).__name__} can be removed: {nothing}")
    budget = Budget(bound, loaded, possible, held)
    _mask_of(choose, every, amount)
    scores = reader.scores(batches, by, normalize.value)
    mask, less = _mask_of(choose, scores, amount)
    for why in less:
        typer.echo(f"headprune: {why}", err=True)
    steps = removal_units(loaded, scores, **rules)
    cut = budget.cut(steps, mask)
    smaller = copy.deepcopy(loaded)
    if tuned:
        hp.fold_gates(smaller, hp.tune_mask(loaded, cut.mask, batches))
    hp.prune_heads(smaller, cut.mask)
    both = {"before": loaded, "after": smaller}
    measured = measure(both, tested)
    if with_bleu:
        pairs = reader.rows(measured_on)
        for moment, each in both.items():
            value = bleu(each, reader.tokenizer, pairs, batch_size, max_length)
            measured[moment] = {"bleu": value} | measured[moment]
    asked = {"model": model, "by": by, "measured_on": str(measured_on)}
    if report:
        gone = removed_units(steps, cut.mask)
        html = page(loaded, smaller, budget, cut, scores, gone, tested, measured, asked)
    with new_folder(out) as staged:
        hp.save_pruned(smaller, staged)
        reader.tokenizer.save_pretrained(staged)
        if report:
            with staged_path(report) as page_file:
                page_file.write_text(html, encoding="utf-8")
    walked = [
        {
            "heads gone": point.heads,
            "heads left": int(measured["before"]["heads"]) - point.heads,
            TITLES[bound.option]: budget.shown(point.value),
        }
        for point in cut.curve
    ]
    if as_json:
        bounded = {"option": bound.option, "value": bound.value}
        summary = asked | {"model": str(out), "bound": bounded, "mask_tuned": tuned}
        typer.echo(json.dumps(summary | {"walked": walked} | measured, indent=1))
        return
    if walked:
        typer.echo(printed(_curve(walked, cut)) + "\n")
    if stay:
        typer.echo(stay + "\n")
    typer.echo(printed(compared_table(measured)))
    if tuned:
        typer.echo(f"gates of the remaining heads were fitted on {data}")
    typer.echo(f"measured on {measured_on}; written to {short(out)}")
    if report:
        typer.echo(f"report: {short(report)}")


def _not_prunable(model: PreTrainedModel, kinds: list[str] | None) -> str:
    """Return a note on the heads that can only be masked; empty if all can be removed."""
    blocks = [block for block in hp.find_heads(model) if not kinds or block.kind in kinds]
    stay = [block for block in blocks if block.why_not_prunable]
    n_stay, n_heads = (sum(len(block.kept_heads) for block in part) for part in (stay, blocks))
    why = "; ".join(dict.fromkeys(block.why_not_prunable for block in stay))
    message = f"{n_stay} of {n_heads} heads can only be masked (masked_heads), not removed: {why}"
    return message if stay else ""


def _mask_of(
    choose: Any, scores: HeadTensors, amount: float | None
) -> tuple[HeadTensors, list[str]]:
    """A mask for a share of the heads, and why it removes fewer; ValueError if it removes none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mask = choose(scores, amount or 0)
    less = list(dict.fromkeys(str(warning.message) for warning in caught))
    if amount and not any(bool((part == 0).any()) for part in mask.values()):
        raise ValueError("; ".join(less))
    return mask, less


def _curve(walked: list[dict[str, float]], cut: BudgetResult) -> list[dict[str, Any]]:
    """Thin a long curve to about a dozen points, and mark the one that was taken."""
    chosen, stride = [point.steps for point in cut.curve].index(cut.steps), -(-len(walked) // 12)
    return [
        point | {"": "<- taken" * (i == chosen)}
        for i, point in enumerate(walked)
        if i % stride == 0 or abs(i - chosen) <= 1
    ]


@_command
def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder; for gguf a new file.")],
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="transformers: for AutoModel; onnx: for ONNX Runtime and others; gguf: for "
            "llama.cpp.",
        ),
    ] = Format.TRANSFORMERS,
    tokenizer_from: Annotated[
        Path | None,
        typer.Option(
            metavar="GGUF", help="With --format gguf: copy the tokenizer of this .gguf file."
        ),
    ] = None,
    full_size: Annotated[
        bool,
        typer.Option(
            "--full-size",
            help="With --format transformers: keep the unpruned size, with zeros for removed heads. "
            "Every class opens it, but it saves no time.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a pruned model so that programs without this library open it.

    Example: headprune export ./smaller ./plain --format transformers
    """
    check_new(out)  # before torch is imported
    if tokenizer_from is not None and form is not Format.GGUF:
        refuse("--tokenizer-from is for --format gguf. Leave it out: others copy MODEL's own")
    if full_size and form is not Format.TRANSFORMERS:
        refuse("--full-size needs --format transformers. Leave it out: other formats need no zeros")

    from headprune_lib.cli.models import load_model, load_tokenizer
    from headprune_lib.saving import new_folder

    summary: dict[str, str | float] = {}
    loaded = load_model(model)
    if form is Format.GGUF:
        file = hp.export_gguf(loaded, out, tokenizer_from=tokenizer_from)
        summary = {"architecture": file.architecture, "tokenizer": file.tokenizer}
    else:
        with new_folder(out) as staged:
            if form is Format.TRANSFORMERS:
                plain = hp.export_transformers(loaded, staged, full_size=full_size)
                summary = {"class": plain.model_class, "route": plain.route}
            else:
                plain = hp.export_onnx(loaded, staged)
            summary["largest difference on random inputs"] = plain.difference
            with contextlib.suppress(FileNotFoundError):  # an image model has none
                load_tokenizer(model).save_pretrained(staged)
    if as_json:
        typer.echo(json.dumps({"model": str(out), "format": str(form), **summary}, indent=1))
        return
    typer.echo("; ".join(f"{name}: {value}" for name, value in summary.items()))
    typer.echo(f"written to {short(out)}")
