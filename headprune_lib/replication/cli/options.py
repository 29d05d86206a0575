"""Options that several commands of the replication take."""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "The replication"
ProfileName = Annotated[str, typer.Option(help="Which set of parameters: smoke, default or base.")]
Data = Annotated[
    str | None,
    typer.Option(help="Folder with the public benchmarks, or hub; $HEADPRUNE_DATA if left out."),
]
