"""The code on the pages runs as it stands, and the page of reruns names what there is."""

import re

import pytest
from ownmodels import LABELLED, classifier, kept_in

from headprune_lib import find_heads
from headprune_lib.replication.models.pretrained import BASES
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.profiles import PROFILES

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["prune", "models"])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, forget_taught):
    monkeypatch.chdir(tmp_path)
    kept_in(tmp_path / "my-model", classifier())
    (tmp_path / "train.tsv").write_text(LABELLED)
    blocks = BLOCK.findall((project_root() / "book" / f"{page}.md").read_text("utf-8"))
    assert len(blocks) >= 3
    namespace: dict = {}
    for block in blocks:
        exec(compile(block, f"book/{page}.md", "exec"), namespace)
    if page == "prune":
        assert sum(len(block.kept_heads) for block in find_heads(namespace["model"])) == 5


def test_the_page_of_reruns_names_every_profile_model_and_variable():
    page = (project_root() / "book" / "rerun.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(profile|model)` \| ([^|]*) \|", page, re.MULTILINE))
    assert {*re.findall(r"`([\w-]+)`", rows["profile"])} == {*PROFILES}
    assert {*re.findall(r"`([\w-]+)`", rows["model"])} == {*BASES}
    assert not [name for name in PROFILES if f"\n`{name}`\n: " not in page]
    sources = (path.read_text("utf-8") for path in (project_root() / "headprune_lib").rglob("*.py"))
    read = {name for text in sources for name in re.findall(r"\bHEADPRUNE_[A-Z]+", text)}
    told = {*re.findall(r"`(HEADPRUNE_[A-Z]+)`", page.rpartition("table-variables")[2])}
    assert len(read) >= 6 and read <= told
