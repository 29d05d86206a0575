"""Extension of Sphinx: the stored results lie beside the pages, and notebooks can be launched.

They have the same path on the site as in the checkout, so that a page's link works in both.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from headprune_lib.replication import store
from headprune_lib.replication.pages.frames import frame
from headprune_lib.replication.paths import project_root


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
        frame(store.load(key)).to_csv(target.with_suffix(".csv"), index=False)
    for source in (root / "data" / "reference").iterdir():
        target = site / source.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
