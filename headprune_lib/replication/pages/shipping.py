"""Extension of Sphinx: the stored results lie beside the pages, and notebooks can be launched.

They have the same path on the site as in the checkout, so that a page's link works in both.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from headprune_lib.replication import store
from headprune_lib.replication.paths import project_root

_LISTS = ("heads", "layers", "cuts", "pairs", "recipes", "recovered", "rows")


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls for an extension that is named in ``_config.yml``."""
    app.connect("config-inited", lambda app, config: offer_to_run(config), priority=300)
    app.connect("build-finished", lambda app, error: error or ship(Path(app.outdir)))
    return {"parallel_read_safe": True}


def offer_to_run(config: Any) -> None:
    """Buttons for Binder and Colab on every notebook's page, where the code's address is known.

    That is what the site was told as ``site_repository``, else what a workflow says of itself.
    """
    server, name = (os.environ.get(f"GITHUB_{one}", "") for one in ("SERVER_URL", "REPOSITORY"))
    address = getattr(config, "site_repository", "") or (server and name and f"{server}/{name}")
    if address:
        config.html_theme_options = {
            **config.html_theme_options,
            "repository_url": address,
            "repository_branch": os.environ.get("GITHUB_REF_NAME", "main"),
            "path_to_docs": ".",
            "launch_buttons": {
                "binderhub_url": "https://mybinder.org",
                "colab_url": "https://colab.research.google.com",
                "notebook_interface": "jupyterlab",
            },
        }


def ship(site: Path) -> None:
    """Put every stored result and the paper's values into a folder of pages."""
    root = project_root()
    for key in store.find():
        source = key.path()
        target = site / source.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        rows = csv_rows(store.load(key).values)
        pd.DataFrame(rows).to_csv(target.with_suffix(".csv"), index=False)
    for source in (root / "data" / "reference").iterdir():
        target = site / source.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def csv_rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a result's table: a head, a layer, a cut, a batch size, or a step of a curve."""
    for name in _LISTS:
        if name in values:
            return list(map(dict, map(_flat, values[name])))
    if "criteria" in values:
        return [
            {"criterion": criterion, **row}
            for criterion, found in values["criteria"].items()
            for row in (_sizes(found) if isinstance(found, list) else _correlations(found))
        ]
    if "trainings" in values:
        return [
            {"training": training["seed"], **dict(_flat(point))}
            for training in values["trainings"]
            for point in training["checkpoints"]
        ]
    if "curves" in values:
        return [
            {"order": order, "removed": share, "mean": curve["mean"][step]}
            | {f"run {i}": run[step] for i, run in enumerate(curve["runs"], start=1)}
            for order, curve in values["curves"].items()
            for step, share in enumerate(values["shares"])
        ]
    if "orders" in values:
        return [
            {"order": order, "removed": share, "kept": kept}
            for order, found in values["orders"].items()
            for share, kept in zip(values["shares"], found["kept"], strict=False)
        ]
    if "finetuned" in values:
        return [
            {"model": model, **dict(_flat(row))}
            for model in ("finetuned", "shape")
            for row in values[model]["speed"]
        ]
    return list(map(dict, values.get("curve", [])))


def _sizes(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A number of sentences a row: what scores on them say beside scores on all."""
    for row in rows:
        yield {"sentences": row["n"], "between": row["between"]} | {
            f"{name} {field}": value
            for name in ("with_all", "area", "lost")
            for field, value in _flat(row[name])
        }


def _correlations(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A domain or an effect of single heads a row: the rank correlation of scores with it."""
    effects = {name: found[name] for name in ("effect", "given_layer", "given_both")}
    for name, one in {**found["domains"], **effects}.items():
        if one:
            yield {"with": name, **dict(_flat(one))}


def _flat(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Fields with one value; an interval becomes two fields, longer lists stay in the JSON.

    What stands before and after something is told field by field.
    """
    for name, value in row.items():
        if isinstance(value, list):
            if name.endswith("interval") and len(value) == 2:
                yield from (
                    (f"{name}_{end}", one) for end, one in zip(("low", "high"), value, strict=True)
                )
        elif not isinstance(value, Mapping):
            yield name, value
        elif name in ("before", "after"):
            yield from ((f"{name}_{inner}", one) for inner, one in _flat(value))
