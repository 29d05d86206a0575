"""The command that writes a model for other programs."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headprune_lib.cli.app import app, check_new, refuse, refusing, short
from headprune_lib.cli.commands import PANEL, AsJson, Model

if TYPE_CHECKING:  # imported where the command needs them: --help must not wait for torch
    from transformers import PreTrainedModel


class Format(StrEnum):
    """What OUT is written as."""

    TRANSFORMERS = "transformers"
    ONNX = "onnx"
    GGUF = "gguf"


@app.command(rich_help_panel=PANEL)
def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder; for gguf a new file.")],
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="transformers: AutoModel opens it. onnx: ONNX Runtime and others do. "
            "gguf: llama.cpp does.",
        ),
    ] = Format.TRANSFORMERS,
    tokenizer_from: Annotated[
        Path | None,
        typer.Option(
            metavar="GGUF", help="With --format gguf: a file of the unpruned model's tokenizer."
        ),
    ] = None,
    full_size: Annotated[
        bool,
        typer.Option(
            "--full-size",
            help="With --format transformers: the size before pruning, with zeros in place of the "
            "heads removed. Every class opens it; it saves no time.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a pruned model so that programs without this library open it.

    Example: headprune export ./smaller ./plain --format transformers
    """
    with refusing():  # before torch is imported
        check_new(out)
    if tokenizer_from is not None and form is not Format.GGUF:
        refuse("--tokenizer-from is for --format gguf; the other formats take MODEL's own")
    if full_size and form is not Format.TRANSFORMERS:
        refuse("--full-size is for --format transformers; the other formats write any numbers")

    from headprune_lib.cli.models import load_model

    with refusing():
        said = _written(load_model(model), model, out, form, tokenizer_from, full_size)
    if as_json:
        typer.echo(json.dumps({"model": str(out), "format": str(form), **said}, indent=1))
        return
    typer.echo("; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in said.items()))
    typer.echo(f"written to {short(out)}")


def _written(
    loaded: PreTrainedModel,
    name: str,
    out: Path,
    form: Format,
    tokenizer_from: Path | None,
    full_size: bool,
) -> dict[str, str | float]:
    from headprune_lib.export import export_gguf, export_onnx, export_transformers
    from headprune_lib.saving import new_folder

    if form is Format.GGUF:
        done = export_gguf(loaded, out, tokenizer_from=tokenizer_from)
        return {"architecture": done.architecture, "tokenizer": done.tokenizer}
    with new_folder(out) as staged:
        if form is Format.TRANSFORMERS:
            plain = export_transformers(loaded, staged, full_size=full_size)
            said = {"class": plain.model_class, "route": plain.route}
            found = plain.difference
        else:
            said, found = {}, export_onnx(loaded, staged).difference
        _copy_tokenizer(name, staged)
    return {**said, "largest difference on random inputs": found}


def _copy_tokenizer(name: str, folder: Path) -> None:
    """The tokenizer beside the model goes with it; a model without one, of images, has none."""
    from headprune_lib.cli.models import load_own_tokenizer

    try:
        tokenizer = load_own_tokenizer(name)
    except FileNotFoundError:
        return
    tokenizer.save_pretrained(folder)
