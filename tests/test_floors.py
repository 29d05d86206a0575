"""Allowed imports: the library below, the replication above it."""

import ast
import sys
from pathlib import Path

import pytest
from processes import python

ROOT = Path(__file__).parents[1]
UPPER = "headprune_lib.replication"
ALWAYS = {
    "headprune_lib",
    "torch",
    "transformers",
    "safetensors",
    "numpy",
} | sys.stdlib_module_names
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
    """Imports below a node, and whether they are inside a function; not those for annotations."""
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


# Slow to import: no command waits for these before it is clear that they are needed.
SLOW = {
    *("IPython", "datasets", "distributed", "matplotlib", "nbformat", "numpy", "pandas"),
    *("papermill", "sacrebleu", "safetensors", "scipy", "scipy.stats", "seaborn", "sentencepiece"),
    *("sklearn", "statsmodels", "torch", "transformers"),
}
LIGHT = {"numpy", "safetensors", "scipy", "sentencepiece"}
"""Imports behind the names of tasks, models and measurements, a quarter of a second together."""
COMMANDS = (
    *("inspect", "criteria", "score", "prune", "export"),
    *("reproduce", "results", "verify", "plan", "train", "run", "open", "bench", "gpu"),
)
# commands, run one after another in one process -> the exit code, and the slow imports allowed
ASKED: dict[str, tuple[int, set[str]]] = {
    **dict.fromkeys(("--help", *(f"{name} --help" for name in COMMANDS)), (0, set())),
    **dict.fromkeys(("score", "nonsense", "run 01 --outputs"), (2, set())),
    "criteria": (0, set()),
    **dict.fromkeys(
        (
            *("inspect ./nowhere", "score ./nowhere data.tsv", "score reviews nowhere.tsv"),
            *("score reviews nowhere.tsv --by importence",),
            *("prune ./nowhere data.tsv out --amount .5",),
            *("prune reviews nowhere.tsv out --amount .5", "export ./nowhere out"),
            *("reproduce figur3b", "reproduce figure3b --task review"),
            *("reproduce figure3b --by importence", "reproduce figure3b --model minilmm"),
            *("reproduce figure3b --n-verses 5", "reproduce figure3b --set step=4"),
            *("results figur3b", "verify figur3b", "verify one_head/review.minilm"),
            *("plan --profile papr", "plan figur3b", "train review", "run 99"),
            *("run 01 -p tasks reviews", "run 01 -p task review", "open 99"),
            *("bench encoders", "gpu --profile smok"),
        ),
        (2, LIGHT),
    ),
    "results": (0, LIGHT),
    "reproduce figure3b --stored": (0, {*LIGHT, "scipy.stats"}),  # for the interval that is printed
}


@pytest.mark.slow
def test_nothing_is_imported_that_is_not_needed():
    code = f"""
import sys
from headprune_lib.cli import main
for words in {list(ASKED)}:
    sys.argv = ["headprune", *words.split()]
    try:
        main()
        ended = 0
    except SystemExit as end:
        ended = end.code or 0
    print("asked", ended, *sorted({SLOW} & {{*sys.modules}}))
"""
    said = python(code, PYTHONPATH=str(ROOT)).stdout.splitlines()
    lines = [line.split() for line in said if line.startswith("asked ")]
    for (words, (ends, allowed)), (_, ended, *loaded) in zip(ASKED.items(), lines, strict=True):
        assert int(ended) == ends, words
        assert {*loaded} <= allowed, words
