"""What others read of the project without opening it says the same; the workflow's steps exist."""

import csv
import json
import os
import re
import tomllib

import pandas as pd
import pytest
import yaml

from headprune_lib.replication import store
from headprune_lib.replication.pages.frames import frame
from headprune_lib.replication.pages.site.building import FILE, ship
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.store import Key

ROOT = project_root()


def test_citation_zenodo_and_package_agree():
    package = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    zenodo = json.loads((ROOT / ".zenodo.json").read_text("utf-8"))
    for name in ("version", "license"):
        assert package[name] == citation[name] == zenodo[name]
    assert (citation["title"], citation["keywords"]) == (zenodo["title"], zenodo["keywords"])
    authors = package["authors"], zenodo["creators"], citation["authors"]
    package_names, zenodo_names, names = ([one["name"] for one in each] for each in authors)
    assert package_names == zenodo_names == names
    assert f"version {package['version']}" in (ROOT / "index.md").read_text("utf-8")
    (paper,) = (one["value"] for one in citation["references"][0]["identifiers"])
    assert paper == zenodo["related_identifiers"][0]["identifier"]


def test_the_workflow_runs_what_is_there():
    workflow = yaml.safe_load((ROOT / ".github/workflows/book.yml").read_text("utf-8"))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    jobs = workflow["jobs"]
    assert (jobs["test"]["needs"], jobs["publish"]["needs"]) == ("check", "test")
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    made = {name for command in commands for name in re.findall(r"make ([a-z]+)", command)}
    assert made == {"check", "book"} <= targets
    installing = {step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step}
    (own,) = [name for name in installing if name.startswith("./")]
    action = yaml.safe_load((ROOT / own / "action.yml").read_text("utf-8"))
    installed = [step for step in action["runs"]["steps"] if step.get("run") == "make install"]
    assert "install" in targets and "/whl/cpu" in str(installed)
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.slow
def test_every_result_is_there_in_both_forms(tmp_path):
    ship(tmp_path)
    for key in store.find():
        shipped = tmp_path / key.path().relative_to(project_root())
        assert shipped.read_bytes() == key.path().read_bytes()
        with shipped.with_suffix(".csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(frame(store.load(key))) > 0 and all(rows[0])
    every = pd.read_csv(tmp_path / FILE)
    of = "measurement == 'pruning curve' and model == 'MPNet' and task == 'SST-2'"
    ends = every.query(f"{of} and where == 'importance, 60% removed' and quantity == 'score'")
    curve = store.load(Key("pruning_curve", "sst2", "mpnet")).values["curves"]["importance"]
    assert ends[["value", "low", "high"]].to_numpy().tolist() == [
        [curve["mean"][6], *curve["interval"][6]]
    ]
    published = tmp_path / "data" / "reference" / "independent_reproductions.json"
    assert json.loads(published.read_text("utf-8"))["grids"]
