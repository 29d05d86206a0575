"""Where the project's folders are, in a checkout and without one."""

import pytest

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
        with pytest.raises(paths.MissingCheckout, match="a checkout, or name one in HEADPRUNE_"):
            folder()
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path))
    assert paths.results_root() == tmp_path  # a folder that is named needs no checkout
    monkeypatch.setenv("HEADPRUNE_ROOT", str(tmp_path))
    with pytest.raises(paths.MissingCheckout, match="no checkout of headprune: it has no _toc.yml"):
        paths.project_root()


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
