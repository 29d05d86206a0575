"""The commands for a model of one's own."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headprune_lib.cli.app import Device, app, refusing

if TYPE_CHECKING:  # imported where a command needs them: --help must not wait for torch
    from torch import nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from headprune_lib.batching import Batch
    from headprune_lib.heads import HeadTensors

PANEL = "A model of your own"

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder, a .gguf file, a Hub name, or with the replication a task that it has "
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
    from headprune_lib.cli.tables import kept_back, left_out, printed, structure

    with refusing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not taken is listed below
        loaded = load_model(model)
        tables = structure(loaded), kept_back(loaded), left_out(loaded)
    if as_json:
        typer.echo(printed([row for table in tables for row in table], as_json))
    else:
        typer.echo("\n\n".join(filter(None, map(printed, tables))))


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
        loaded, tokenizer, batches = prepared(model, data, batch_size, max_length, device)
        scores = scores_of(loaded, tokenizer, batches, by, normalize)
        typer.echo(printed(scores_table(scores, by), as_json))


def prepared(
    model: str, data: Path, batch_size: int, max_length: int, device: str
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, list[Batch]]:
    """A model, its tokenizer, and the rows of a file as batches for it."""
    from headprune_lib.cli.models import load_model, load_own_tokenizer
    from headprune_lib.cli.text_batches import check_runs

    loaded, tokenizer = load_model(model, device=device), load_own_tokenizer(model)
    batches = made_batches(loaded, tokenizer, data, batch_size, max_length)
    check_runs(loaded, batches[0])
    return loaded, tokenizer, batches


def made_batches(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    data: Path,
    batch_size: int,
    max_length: int,
) -> list[Batch]:
    """The rows of a file as batches for a model."""
    from headprune_lib.cli.text_batches import make_own_batches
    from headprune_lib.cli.text_files import read_rows

    return make_own_batches(model, tokenizer, read_rows(data), batch_size, max_length)


def scores_of(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    batches: list[Batch],
    by: str,
    normalize: Normalise,
) -> HeadTensors:
    """Every head's score; end marks are left out where the criterion leaves it to a tokenizer."""
    from headprune_lib import find_heads, score_heads
    from headprune_lib.attention import end_ids
    from headprune_lib.cli.progress import Watched
    from headprune_lib.criteria import get_criterion

    ways: dict[Normalise, Literal["own", "l2"] | None] = {
        Normalise.OWN: "own",
        Normalise.L2: "l2",
        Normalise.NONE: None,
    }
    if not any(block.kept for block in find_heads(model)):
        raise ValueError("no head is left in the model: there is nothing to score")
    criterion = get_criterion(by)
    ends = end_ids(tokenizer)
    settings = {"leave_out": ends} if ends and criterion.leaves_ends_out else {}
    try:
        return score_heads(model, Watched(batches), by, normalize=ways[normalize], **settings)
    except IndexError as error:
        raise ValueError(f"{error}: is the tokenizer that of another model?") from None
