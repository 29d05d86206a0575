"""What others read of the project without opening it says the same; the workflow's steps exist."""

import json
import os
import re
import subprocess
import tomllib

import pytest
import yaml

from headprune_lib.replication.pages.printing import as_one_page, pages_in_order
from headprune_lib.replication.paths import project_root

ROOT = project_root()


def test_citation_zenodo_and_package_agree():
    package = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    zenodo = json.loads((ROOT / ".zenodo.json").read_text("utf-8"))
    assert package["version"] == citation["version"] == zenodo["version"]
    assert package["license"] == citation["license"] == zenodo["license"]
    assert citation["title"] == zenodo["title"]
    assert citation["keywords"] == zenodo["keywords"]
    names = [author["name"] for author in package["authors"]]
    assert names == [one["name"] for one in citation["authors"]]
    assert names == [one["name"] for one in zenodo["creators"]]
    assert f"version {package['version']}" in (ROOT / "index.md").read_text("utf-8")
    (paper,) = (one["value"] for one in citation["references"][0]["identifiers"])
    assert paper == zenodo["related_identifiers"][0]["identifier"]


def test_the_workflow_runs_what_is_there():
    workflow = yaml.safe_load((ROOT / ".github/workflows/book.yml").read_text("utf-8"))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    jobs = workflow["jobs"]
    assert list(jobs) == ["check", "test", "publish"]
    assert (jobs["test"]["needs"], jobs["publish"]["needs"]) == ("check", "test")
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    made = {name for command in commands for name in re.findall(r"make ([a-z]+)", command)}
    assert made == {"check", "book", "pdf"}
    assert made <= targets
    for path in re.findall(r"\.ci/run", " ".join(commands)):
        assert os.access(ROOT / path, os.X_OK)


def test_what_binder_runs_installs_the_pinned_packages():
    script = ROOT / ".binder" / "postBuild"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    for name in re.findall(r"(?:--constraint|-r) (\S+)", script.read_text("utf-8")):
        assert (ROOT / name).is_file()
    binder, own = (
        yaml.safe_load(path.read_text("utf-8"))["dependencies"]
        for path in (ROOT / ".binder/environment.yml", ROOT / "environment.yml")
    )
    assert binder == [one for one in own if isinstance(one, str)]


def test_the_book_as_one_page_keeps_its_links(tmp_path):
    (tmp_path / "book").mkdir()
    page = "<html><head></head><body><article class='bd-article'>{}</article></body></html>"
    (tmp_path / "index.html").write_text(
        page.format(
            "<h1 id='a'>A</h1><a href='book/b.html#a'>b</a><a href='search.html'>search</a>"
            "<a href='https://example.org'>out</a><details><p>folded</p></details>"
        )
    )
    (tmp_path / "book" / "b.html").write_text(
        page.format("<h1 id='a'>B</h1><img src='../_images/x.png'><a href='#a'>here</a>")
    )
    whole = as_one_page(tmp_path, ["index", "book/b"])
    assert 'href="#book-b--a">b<' in whole
    assert 'href="#book-b--a">here<' in whole
    assert "<a>search</a>" in whole
    assert 'href="https://example.org"' in whole
    assert 'src="_images/x.png"' in whole
    assert '<details open="">' in whole


def test_every_page_is_printed():
    assert pages_in_order()[0] == "index"
    for page in pages_in_order():
        assert [*ROOT.glob(f"{page}.*")], page


def test_a_page_that_was_not_built_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="index.html"):
        as_one_page(tmp_path, ["index"])
