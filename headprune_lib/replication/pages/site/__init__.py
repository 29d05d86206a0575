"""The site's own parts, as an extension of Sphinx: what is written from results, and each page's head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headprune_lib.replication.pages.site.building import (
    Stored,
    finish,
    offer_to_run,
    prepare_page,
    ship,
    substitutions,
)


def setup(app: Any) -> dict[str, Any]:
    """What Sphinx calls: the directive ``stored``, what is done to pages, and the results beside them."""
    app.add_config_value("site_address", "", "html")
    app.add_config_value("site_repository", "", "html")
    app.add_directive("stored", Stored)
    app.connect("config-inited", substitutions, priority=100)
    app.connect("config-inited", offer_to_run, priority=300)
    app.connect("html-page-context", prepare_page, priority=900)
    app.connect("build-finished", lambda app, error: error or ship(Path(app.outdir)))
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
