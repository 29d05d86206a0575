"""Who may import whom: the library below, the replication above it, and no detours."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "headprune_lib"
UPPER = "headprune_lib.replication"

CORE = {"torch", "transformers", "safetensors", "numpy"}
# Further packages, each for a part of the core alone; all but typer are optional and so must be
# imported inside a function.
FURTHER = {
    "cli": {"typer", "huggingface_hub", "jinja2", "sacrebleu", "tqdm"},
    "export": {"gguf", "onnxruntime"},
    "gguf_reading": {"gguf"},
    "fairseq_import": {"fairseq", "sentencepiece", "subword_nmt"},
}
INSTALLED_WITH_THE_CORE = CORE | {"typer"}
# For annotations alone: a type checker has them, a user need not.
ANNOTATIONS = {"jaxtyping"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(LIBRARY.rglob("*.py"))}


@cache
def imports(name: str) -> tuple[tuple[str, int, bool, bool], ...]:
    """What a module imports: name, line, whether within a function, whether for annotations."""

    def walk(node: ast.AST, lazy: bool, typed: bool) -> Iterator[tuple[str, int, bool, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield alias.name, child.lineno, lazy, typed
            elif isinstance(child, ast.ImportFrom):
                source = child.module or ""
                if child.level:
                    package = name if MODULES[name].stem == "__init__" else name.rpartition(".")[0]
                    parts = package.split(".")[: len(package.split(".")) - child.level + 1]
                    source = ".".join([*parts, *filter(None, [child.module])])
                for alias in child.names:
                    inner = f"{source}.{alias.name}"
                    yield inner if inner in MODULES else source, child.lineno, lazy, typed
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                for statement in child.body:
                    yield from walk(ast.Module([statement], []), lazy, True)
            else:
                inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from walk(child, inside, typed)

    return tuple(walk(ast.parse(MODULES[name].read_text("utf-8")), False, False))


def where(name: str, line: int) -> str:
    return f"{MODULES[name].relative_to(ROOT)}:{line}"


def upper(name: str) -> bool:
    return name == UPPER or name.startswith(f"{UPPER}.")


def test_the_lower_floor_imports_what_it_is_installed_with():
    wrong = []
    for name in MODULES:
        if upper(name):
            continue
        part = name.split(".")[1] if "." in name else ""
        for target, line, lazy, typed in imports(name):
            package = target.partition(".")[0]
            if upper(target):
                wrong.append(f"{where(name, line)} imports {target}, of the upper floor")
            elif (
                package == "headprune_lib"
                or package in sys.stdlib_module_names
                or package in CORE
                or (typed and package in ANNOTATIONS)
            ):
                continue
            elif package not in FURTHER.get(part, ()):
                wrong.append(f"{where(name, line)} imports {package}")
            elif package not in INSTALLED_WITH_THE_CORE and not lazy:
                wrong.append(f"{where(name, line)} imports {package} outside of a function")
    assert not wrong, "\n".join(wrong)


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


ASKED = {
    "--help": 0,
    "--version": 0,
    "prune --help": 0,
    "reproduce --help": 0,
    "score": 2,
    "nonsense": 2,
    "export model out --format pickle": 2,
    "score model data.tsv --batch-size 0": 2,
    "prune model data.tsv out --amount 2": 2,
    "translate enfr --beams 0": 2,
    "bench --rounds 0": 2,
}


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
