"""The commands for a model of one's own."""

from __future__ import annotations

import contextlib
import copy
import json
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headprune_lib.cli.app import Device, app, refuse, refusing, short

if TYPE_CHECKING:  # imported where a command needs them: --help must not wait for torch
    from torch import nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from headprune_lib.batching import Batch
    from headprune_lib.heads import HeadTensors

PANEL = "A model of your own"

_TITLES = {
    "accuracy": "accuracy",
    "loss": "loss (nats)",
    "examples_per_second": "examples a second",
    "parameters": "parameters",
    "heads": "heads",
}
_FORMATS = {"accuracy": "{:.4f}", "loss": "{:.4f}", "examples_per_second": "{:.1f}"}

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder, a Hub name, or with the replication a task that it has "
        "weights for, such as reviews.",
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help=".tsv or .jsonl with text and label, text, text2 and label, source and "
        "target, or text alone.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Examples a batch.")]
MaxLength = Annotated[int, typer.Option(min=2, help="Pieces a text is cut to.")]
By = Annotated[
    str,
    typer.Option(
        metavar="CRITERION", help="What scores the heads; `headprune criteria` lists the names."
    ),
]


class Normalise(StrEnum):
    """What is done to scores, layer by layer."""

    OWN = "own"
    L2 = "l2"
    NONE = "none"


Normalised = Annotated[
    Normalise,
    typer.Option(
        help="Divide by the l2 norm of the layer's scores; own: as is usual for the criterion."
    ),
]


@app.command(rich_help_panel=PANEL)
def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show the attention heads of a model, and the attention modules that were not taken.

    Example: headprune inspect ./my-model
    """
    from headprune_lib.cli.models import load_model
    from headprune_lib.cli.tables import left_out, printed, structure

    with refusing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not taken is listed below
        loaded = load_model(model)
        taken, others = structure(loaded), left_out(loaded)
    if as_json:
        typer.echo(printed([*taken, *others], as_json))
    else:
        typer.echo("\n\n".join(filter(None, [printed(taken), printed(others)])))


@app.command(rich_help_panel=PANEL)
def criteria(as_json: AsJson = False) -> None:
    """List what can score heads: the names that --by takes."""
    from headprune_lib.cli.tables import criteria_table, printed

    typer.echo(printed(criteria_table(), as_json))


@app.command(rich_help_panel=PANEL)
def score(
    model: Model,
    data: Data,
    by: By = "importance",
    normalize: Normalised = Normalise.OWN,
    batch_size: BatchSize = 32,
    max_length: MaxLength = 128,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Score every head of a model on a file, by importance (Eq. 2) or another criterion.

    Example: headprune score ./my-model train.tsv
    """
    from headprune_lib.cli.tables import printed, scores_table
    from headprune_lib.criteria import get_criterion

    with refusing():
        get_criterion(by)  # before a model is loaded
        loaded, _, batches = _prepared(model, data, batch_size, max_length, device)
        typer.echo(printed(scores_table(_scores(loaded, batches, by, normalize), by), as_json))


@app.command(rich_help_panel=PANEL)
def prune(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the pruned model.")],
    amount: Annotated[float, typer.Option(help="Share of the heads that goes, 0 to 1.")],
    by: By = "importance",
    normalize: Normalised = Normalise.OWN,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only heads of this kind (enc-enc, enc-dec, dec-dec); may be repeated."),
    ] = None,
    keep_at_least: Annotated[int, typer.Option(help="Heads that each layer keeps.")] = 0,
    uniform: Annotated[
        bool,
        typer.Option("--uniform", help="As many heads in each layer, for headprune export."),
    ] = False,
    test: Annotated[
        Path | None, typer.Option(help="Another file for quality and speed; DATA if left out.")
    ] = None,
    batch_size: BatchSize = 32,
    max_length: MaxLength = 128,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Remove the heads that a criterion scores lowest and write the model to a new folder.

    Example: headprune prune ./my-model train.tsv ./smaller --amount 0.4 --test dev.tsv
    """
    if not 0 <= amount <= 1:
        refuse(f"--amount is {amount}; give the share of heads to remove, 0 to 1")
    with refusing():  # before torch is imported
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            refuse(f"{out} is there already and is not overwritten; name a new folder")

    from headprune_lib import full_mask, prune_heads, prune_mask, save_pruned, uniform_mask
    from headprune_lib.cli.quality import measure
    from headprune_lib.criteria import get_criterion
    from headprune_lib.saving import new_folder

    with refusing():
        get_criterion(by)
        loaded, tokenizer, batches = _prepared(model, data, batch_size, max_length, device)
        tested = (
            batches if test is None else _batches(loaded, tokenizer, test, batch_size, max_length)
        )
        choose = uniform_mask if uniform else prune_mask
        bounds = {"kinds": kind, "keep_at_least": max(keep_at_least, int(uniform))}
        # what is wrong with the bounds is said before minutes are spent on scores
        choose(loaded, full_mask(loaded), amount, **bounds)
        mask = choose(loaded, _scores(loaded, batches, by, normalize), amount, **bounds)
        smaller = prune_heads(copy.deepcopy(loaded), mask)
        measured = measure({"before": loaded, "after": smaller}, tested)
        with new_folder(out) as staged:
            save_pruned(smaller, staged)
            tokenizer.save_pretrained(staged)
    if as_json:
        typer.echo(
            json.dumps(
                {"model": str(out), "by": by, "measured_on": str(test or data), **measured},
                indent=1,
            )
        )
        return
    typer.echo(_compared(measured))
    typer.echo(f"measured on {test or data}; written to {short(out)}")


def _compared(measured: dict[str, dict[str, float]]) -> str:
    from headprune_lib.cli.tables import printed

    return printed(
        [
            {"": _TITLES[name]}
            | {
                moment: _FORMATS.get(name, "{:,.0f}").format(figures[name]).rjust(12)
                for moment, figures in measured.items()
            }
            for name in measured["before"]
        ]
    )


@app.command(
    "fairseq-iwslt",
    rich_help_panel=PANEL,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def fairseq_iwslt(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A folder that fairseq-preprocess wrote.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where checkpoints go.")],
) -> None:
    """Train the paper's IWSLT model with fairseq itself, and convert every epoch.

    Goes on from the last checkpoint; further arguments are fairseq-train's. The recipe:
    transformer_iwslt_de_en with 8 heads and the norm before each block, Adam, inverse square root
    with 4,000 warm-up updates to 5e-4, dropout 0.3, label smoothing 0.1, 4,000 tokens a batch.

    Example: headprune fairseq-iwslt data-bin/iwslt14 runs/iwslt --max-epoch 40 --fp16
    """
    from headprune_lib.fairseq_import.training import train_iwslt

    with refusing():
        try:
            folders = train_iwslt(data, out, context.args)
        except RuntimeError as error:
            typer.echo(f"headprune: {error}", err=True)
            raise typer.Exit(1) from None
    for folder in folders:
        typer.echo(short(folder))


def _prepared(
    model: str, data: Path, batch_size: int, max_length: int, device: str
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, list[Batch]]:
    from headprune_lib.cli.models import load_model, load_own_tokenizer

    loaded, tokenizer = load_model(model, device=device), load_own_tokenizer(model)
    return loaded, tokenizer, _batches(loaded, tokenizer, data, batch_size, max_length)


def _batches(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    data: Path,
    batch_size: int,
    max_length: int,
) -> list[Batch]:
    from headprune_lib.cli.text_batches import make_own_batches
    from headprune_lib.cli.text_files import read_rows

    return make_own_batches(model, tokenizer, read_rows(data), batch_size, max_length)


def _scores(model: nn.Module, batches: list[Batch], by: str, normalize: Normalise) -> HeadTensors:
    from headprune_lib import score_heads
    from headprune_lib.attention import eager
    from headprune_lib.criteria import get_criterion

    ways: dict[Normalise, Literal["own", "l2"] | None] = {
        Normalise.OWN: "own",
        Normalise.L2: "l2",
        Normalise.NONE: None,
    }
    try:
        with eager(model) if get_criterion(by).weights else contextlib.nullcontext():
            return score_heads(model, batches, by, normalize=ways[normalize])
    except IndexError as error:
        raise ValueError(f"{error}: is the tokenizer that of another model?") from None
