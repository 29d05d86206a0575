"""Pages only read what is measured: their tests share it, a folder a worker, and the built site."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from bs4 import BeautifulSoup
from processes import made_once

from headprune_lib.replication.paths import project_root
from headprune_lib.replication.profiles import Profile, load_profile


@pytest.fixture(scope="session")
def measured(trained, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    shutil.copytree(trained, folder / "cache")
    return folder


@pytest.fixture(scope="module")
def smoke(measured) -> Profile:
    """Profile ``smoke`` with the results of all modules that came before; none may change one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADPRUNE_RESULTS", str(measured / "results"))
        patch.setenv("HEADPRUNE_CACHE", str(measured / "cache"))
        yield load_profile("smoke")


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The rendered book, built once a run and apart from the one in ``_build``."""
    return made_once(tmp_path_factory, "site", build) / "_build" / "html"


def build(folder: Path) -> None:
    root = project_root()
    mathjax = root / "book" / "static" / "mathjax-tex-svg.js"
    assert mathjax.is_file(), f"{mathjax} is missing: run `make install`"
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(root)]
    command += ["--path-output", str(folder), "-n", "-W", "--keep-going"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.fixture(scope="session")
def pages(site) -> dict[str, BeautifulSoup]:
    """Every page of the book, by its path in the site."""
    return {
        str(path.relative_to(site)): BeautifulSoup(path.read_text("utf-8"), "html.parser")
        for path in sorted(site.rglob("*.html"))
        if not path.is_relative_to(site / "_static")
    }


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
