"""The site's own parts, as an extension of Sphinx: the front page, the status page, head and sitemap."""

from __future__ import annotations

from typing import Any

from headprune_lib.replication.pages.site.building import (
    finish,
    prepare_page,
    substitutions,
)
from headprune_lib.replication.pages.site.directive import Stored


def setup(app: Any) -> dict[str, Any]:
    """What Sphinx calls: the directive ``stored`` and what is done to pages."""
    app.add_config_value("site_address", "", "html")
    app.add_config_value("site_repository", "", "html")
    app.add_directive("stored", Stored)
    app.connect("config-inited", substitutions, priority=100)
    app.connect("html-page-context", prepare_page, priority=900)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
