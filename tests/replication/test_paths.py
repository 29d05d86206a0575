"""Where the project's folders are, in a checkout and without one."""

import pytest
from processes import python

from headprune_lib.replication import paths


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The library as a wheel installs it, with a working directory of its own."""
    package = tmp_path / "site-packages" / "headprune_lib" / "replication"
    package.mkdir(parents=True)
    monkeypatch.setattr(paths, "__file__", str(package / "paths.py"))
    monkeypatch.chdir(package.parent)
    for name in ("ROOT", "RESULTS", "MODELS"):
        monkeypatch.delenv(f"HEADPRUNE_{name}", raising=False)


@pytest.mark.usefixtures("installed")
def test_without_a_checkout_nothing_is_read_or_written_beside_the_package(tmp_path, monkeypatch):
    for folder in (paths.results_root, paths.models_root, paths.reference_root):
        with pytest.raises(paths.MissingCheckout, match="or set HEADPRUNE_ROOT to one"):
            folder()
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path))
    assert paths.results_root() == tmp_path  # a folder that is named needs no checkout


@pytest.mark.usefixtures("installed")
def test_a_checkout_is_named_or_found_upwards(tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"  # the least that counts as one, and a folder in it
    for folder in ("data/reference", "notebooks"):
        (checkout / folder).mkdir(parents=True)
    (checkout / "_toc.yml").touch()
    monkeypatch.setenv("HEADPRUNE_ROOT", str(checkout))
    assert paths.reference_root() == checkout / "data" / "reference"
    monkeypatch.delenv("HEADPRUNE_ROOT")
    monkeypatch.chdir(checkout / "notebooks")
    assert paths.results_root() == checkout / "data" / "results"


WITHOUT_TORCH = """
import shlex, sys
from headprune_lib.cli import main
sys.modules["torch"] = None
for line in sys.argv[1:]:
    sys.argv = ["headprune", *shlex.split(line)]
    try:
        main()
    except SystemExit as ended:
        print(ended.code)
"""


def test_a_command_that_needs_a_checkout_says_so_at_once(tmp_path, monkeypatch):
    lines = "reproduce table4", "results", "verify all", "bench", "run 01", "open 01", "findings"
    lines += "plan smoke", "train", "gpu", "reproduce --help"
    monkeypatch.setenv("HEADPRUNE_ROOT", str(tmp_path))
    for name in ("RESULTS", "MODELS"):
        monkeypatch.delenv(f"HEADPRUNE_{name}", raising=False)
    done = python(WITHOUT_TORCH, *lines)
    told = done.stderr.splitlines()
    said = (
        f"headprune: HEADPRUNE_ROOT is {tmp_path}, which is not a checkout of headprune: it lacks "
    )
    assert len(told) == 10 and all(line.startswith(said) for line in told)
    assert done.stdout.splitlines()[:10] == ["2"] * 10 and done.stdout.endswith("\n0\n")
