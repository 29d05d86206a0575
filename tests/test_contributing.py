"""The recipes of CONTRIBUTING.md, applied to a copy of the project as they are written."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from processes import python

ROOT = Path(__file__).parent.parent
RECIPES = dict(
    re.findall(
        r"^## Add (an? [\w ]+)\n(.*?)(?=^## |\Z)",
        (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)
START = {
    "pytest": "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))",
    "headprune": "from headprune_lib.cli import main; main()",
}
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def rows_of_rte(folder: Path) -> None:
    """Write made-up pairs in the format of GLUE's own files."""
    folder.mkdir()
    for file, n in (("train", 96), ("dev", 60)):
        lines = [
            f"{i}\tthe {i} is good\tit is {word} {i}\t{label}"
            for i in range(n // 2)
            for word, label in (("good", "entailment"), ("bad", "not_entailment"))
        ]
        (folder / f"{file}.tsv").write_text(
            "\n".join(["index\tsentence1\tsentence2\tlabel", *lines]) + "\n"
        )


@pytest.fixture
def copy(tmp_path) -> Path:
    root = tmp_path / "project"
    for name in ("headprune_lib", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "_toc.yml"):
        shutil.copy(ROOT / name, root)
    for name in ("data", "notebooks"):
        (root / name).symlink_to(ROOT / name)
    (root / "folder").mkdir()
    rows_of_rte(root / "folder" / "RTE")
    return root


def apply(block: str, root: Path) -> None:
    """Put a block where its first line says; fail if there is no such place."""
    first, _, text = block.partition("\n")
    path, where = first.removeprefix("# ").split(", ")
    file = root / path
    if where == "new":
        assert not file.exists(), f"{path} is there already"
        file.write_text(text)
    elif where == "at the end":
        file.write_text(file.read_text("utf-8") + text)
    else:
        table = re.compile(rf"^{where.removeprefix('in ')}\b.*= [\[({{]\n", re.MULTILINE)
        before = file.read_text("utf-8")
        assert len(table.findall(before)) == 1, f"{path} has no table {where}"
        file.write_text(table.sub(lambda found: found[0] + text, before))


def test_there_are_four_recipes():
    assert list(RECIPES) == ["an architecture", "a criterion", "a task", "a table or figure"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works_as_it_is_written(name, copy):
    commands = []
    for language, block in BLOCK.findall(RECIPES[name]):
        if language in ("python", "yaml"):
            apply(block, copy)
        else:
            commands += block.splitlines()
    assert commands
    own = {
        "PYTHONPATH": str(copy),
        "HEADPRUNE_CACHE": str(copy / "cache"),
        "HEADPRUNE_RESULTS": str(copy / "results"),
    }
    for command in commands:
        program, *words = shlex.split(command.replace("FOLDER", str(copy / "folder")))
        said = python(START[program], *words, cwd=copy, **own).stdout
        assert program != "pytest" or re.search(r"\d+ passed", said), said[-1000:]
