"""The site's extension of Sphinx: text written from results, and the head of each page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headprune_lib.replication.pages.site import building


def setup(app: Any) -> dict[str, Any]:
    """Register the directive ``stored``, the processing of pages, and the shipping of results."""
    app.add_config_value("site_address", "", "html")
    app.add_config_value("site_repository", "", "html")
    app.add_directive("stored", building.Stored)
    app.connect("config-inited", building.substitutions, priority=100)
    app.connect("config-inited", building.offer_to_run, priority=300)
    app.connect("html-page-context", building.prepare_page, priority=900)
    app.connect("build-finished", lambda app, error: error or building.ship(Path(app.outdir)))
    app.connect("build-finished", building.finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
