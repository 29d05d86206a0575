"""The commands for a model of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from headprune_lib.cli.common import Device, app, refuse, refusing, short

PANEL = "A model of your own"

_TITLES = {"accuracy": "accuracy", "loss": "loss (nats)", "examples_per_second": "examples a second",
           "parameters": "parameters", "heads": "heads"}
_FORMATS = {"accuracy": "{:.4f}", "loss": "{:.4f}", "examples_per_second": "{:.1f}"}

Model = Annotated[str, typer.Argument(
    metavar="MODEL", help="A folder, a Hub name, or reviews (the committed model).")]
Data = Annotated[Path, typer.Argument(
    metavar="DATA", help=".tsv or .jsonl with text and label, text, text2 and label, source and "
    "target, or text alone.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Examples a batch.")]
MaxLength = Annotated[int, typer.Option(min=2, help="Pieces a text is cut to.")]


@app.command(rich_help_panel=PANEL)
def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show the attention heads of a model.

    Example: headprune inspect ./my-model
    """
    from headprune_lib.cli.loading import load_model
    from headprune_lib.cli.measuring import structure

    with refusing():
        _show(structure(load_model(model)), as_json)


@app.command(rich_help_panel=PANEL)
def score(model: Model, data: Data, batch_size: BatchSize = 32, max_length: MaxLength = 128,
          device: Device = "cpu", as_json: AsJson = False) -> None:
    """Score every head of a model on a file: exact expected sensitivity (Eq. 2), l2 a layer.

    Example: headprune score ./my-model train.tsv
    """
    from headprune_lib import head_importance
    from headprune_lib.cli.measuring import scores_table

    with refusing():
        loaded, _, batches = _prepared(model, data, batch_size, max_length, device)
        _show(scores_table(head_importance(loaded, batches)), as_json)


@app.command(rich_help_panel=PANEL)
def prune(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the pruned model.")],
    amount: Annotated[float, typer.Option(help="Share of the heads that goes, 0 to 1.")],
    kind: Annotated[list[str] | None, typer.Option(
        help="Only heads of this kind (enc-enc, enc-dec, dec-dec); may be repeated.")] = None,
    keep_at_least: Annotated[int, typer.Option(help="Heads that each layer keeps.")] = 0,
    test: Annotated[Path | None, typer.Option(
        help="Another file for quality and speed; DATA if left out.")] = None,
    batch_size: BatchSize = 32,
    max_length: MaxLength = 128,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Remove the least important heads of a model and write it to a new folder.

    Example: headprune prune ./my-model train.tsv ./smaller --amount 0.4 --test dev.tsv
    """
    from headprune_lib import head_importance, prune_heads, prune_mask, save_pruned
    from headprune_lib.cli.measuring import measure

    if not 0 <= amount <= 1:
        refuse(f"--amount is {amount}; give the share of heads to remove, 0 to 1")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        refuse(f"{out} is there already and is not overwritten; name a new folder")
    with refusing():
        loaded, tokenizer, batches = _prepared(model, data, batch_size, max_length, device)
        tested = batches if test is None else _batches(loaded, tokenizer, test, batch_size,
                                                       max_length)
        mask = prune_mask(loaded, head_importance(loaded, batches), amount, kinds=kind,
                          keep_at_least=keep_at_least)
        before = measure(loaded, tested)
        after = measure(prune_heads(loaded, mask), tested)
        save_pruned(loaded, out)
        tokenizer.save_pretrained(out)
    found = {"model": str(out), "measured_on": str(test or data), "before": before, "after": after}
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    table = pd.DataFrame({moment: {_TITLES[name]: _FORMATS.get(name, "{:,.0f}").format(value)
                                   for name, value in found[moment].items()}
                          for moment in ("before", "after")})
    typer.echo(table.to_string())
    typer.echo(f"measured on {test or data}; written to {short(out)}")


@app.command("fairseq-iwslt", rich_help_panel=PANEL,
             context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def fairseq_iwslt(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(metavar="DATA",
                                         help="A folder that fairseq-preprocess wrote.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where checkpoints go.")],
) -> None:
    """Train the paper's IWSLT model with fairseq itself, and convert every epoch.

    Goes on from the last checkpoint; further arguments are fairseq-train's. The recipe:
    transformer_iwslt_de_en, Adam, inverse square root with 4,000 warm-up updates to 5e-4, dropout
    0.3, label smoothing 0.1, 4,096 tokens a batch.

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


def _prepared(model: str, data: Path, batch_size: int, max_length: int, device: str):
    from headprune_lib.cli.loading import load_model, load_own_tokenizer

    loaded, tokenizer = load_model(model, device=device), load_own_tokenizer(model)
    return loaded, tokenizer, _batches(loaded, tokenizer, data, batch_size, max_length)


def _batches(model, tokenizer, data: Path, batch_size: int, max_length: int) -> list[dict]:
    from headprune_lib.cli.rows import make_own_batches, read_rows

    return make_own_batches(model, tokenizer, read_rows(data), batch_size, max_length)


def _show(table: pd.DataFrame, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(json.loads(table.to_json(orient="records")), indent=1))
    else:
        typer.echo(table.to_string(index=False, float_format="{:.4g}".format))
