"""Who may import whom: the library below, the replication above it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UPPER = "headprune_lib.replication"
ALWAYS = {
    "headprune_lib",
    "torch",
    "transformers",
    "safetensors",
    "numpy",
    *sys.stdlib_module_names,
}
# Further packages, each for a part of the core alone; all but typer are optional and so must be
# imported inside a function.
FURTHER = {
    "cli": {"typer", "huggingface_hub", "jinja2", "rich", "sacrebleu", "tqdm"},
    "export": {"gguf", "onnxruntime"},
    "fairseq_import": {"fairseq", "sentencepiece", "subword_nmt"},
}
LOWER = [
    path.relative_to(ROOT)
    for path in sorted((ROOT / "headprune_lib").rglob("*.py"))
    if "replication" not in path.parts
]


def imports(node, lazy=False):
    """What is imported below a node, and whether within a function; not what annotations need."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, lazy) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, f"line {child.lineno}: give the whole name"
            yield from ((f"{child.module}.{alias.name}", lazy) for alias in child.names)
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            yield from imports(child, lazy or isinstance(child, ast.FunctionDef))


@pytest.mark.parametrize("path", LOWER, ids=str)
def test_the_lower_floor_imports_what_it_is_installed_with(path):
    further = FURTHER.get(path.with_suffix("").parts[1], set())
    for name, lazy in imports(ast.parse((ROOT / path).read_text("utf-8"))):
        package = name.partition(".")[0]
        assert not f"{name}.".startswith(f"{UPPER}."), f"{name} is of the upper floor"
        assert package in ALWAYS or package in further, name
        assert package in ALWAYS or package == "typer" or lazy, f"{name} outside of a function"


# What a command must not wait for before it is clear that it is needed.
ELSEWHERE = {
    *("datasets", "distributed", "matplotlib", "pandas", "pydantic", "sacrebleu", "seaborn"),
    *("sentencepiece", "sklearn", "statsmodels", "typer"),
}


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


ASKED = {"--help": 0, "score": 2, "nonsense": 2, "run 01 --outputs": 2}


def test_help_and_wrong_arguments_wait_for_no_large_package():
    code = f"""
import sys
from headprune_lib.cli import main
ended = []
for words in {list(ASKED)}:
    sys.argv = ["headprune", *words.split()]
    try:
        main()
    except SystemExit as end:
        ended.append(end.code)
print("ended", *ended, "loaded", *sys.modules)
"""
    ended, _, loaded = run(code).rpartition("ended ")[2].partition(" loaded ")
    assert ended.split() == [str(code) for code in ASKED.values()]
    slow = {"torch", "transformers", "numpy", "pandas", "scipy", "safetensors", *ELSEWHERE}
    # typer is what runs; rich takes pydantic where it is
    assert not (slow - {"typer", "pydantic"}) & set(loaded.split())
