"""The committed notebooks are complete and clean, and every one runs on the smoke profile."""

import re
from pathlib import Path

import nbformat
import papermill
import pytest
from myst_nb.core.variables import format_plain_text
from papermill import PapermillExecutionError

from headprune_lib.replication import store
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.pages import notebooks
from headprune_lib.replication.pages.notebooks import (
    WrongParameter,
    find_notebook,
    notebook_parameters,
    notebooks_root,
    run_notebook,
)

NOTEBOOKS = sorted(
    path for path in notebooks_root().glob("*.ipynb") if not path.stem.endswith("-run")
)
PARAMETERS = {"profile", "task", "model", "n_examples", "seed", "device", "fresh"}
# A folder of somebody's machine, or an object's address in memory.
MACHINE = re.compile(
    r"(?<![\w.~/$])/(?:root|home|tmp|Users|private|var/folders)/|\.venv/| at 0x[0-9a-f]+"
)

# A number in the prose: its key, and its format if it has one.
NUMBER = re.compile(r"\{glue:text\}`(\w+)(?::([^`]+))?`")
# Lines of code a notebook, in the mean, captions among them: what a page says is computed in tested
# functions.
MOST_LINES = 33

# Those that are run on the smoke profile in every test run, one a half; the rest nightly.
FIRST = ("01_one_head", "07_training_dynamics")

PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def texts(output: nbformat.NotebookNode) -> list[str]:
    """What an output says in words: streams and every text representation."""
    if output.output_type == "stream":
        return [output.text]
    return [
        content
        for kind, content in output.get("data", {}).items()
        if isinstance(content, str) and (not kind.startswith("image/") or kind.endswith("svg+xml"))
    ]


def glued(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What the cells made available to the prose as text; tables for other pages are none of it."""
    record = "application/papermill.record/"
    return {
        output.metadata["scrapbook"]["name"]: output.data[f"{record}text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if f"{record}text/plain" in output.get("data", {})
        and f"{record}text/html" not in output["data"]
    }


def numbers_in_prose(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    return [
        found
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for found in NUMBER.findall(cell.source)
    ]


def test_there_are_notebooks():
    assert NOTEBOOKS, f"no notebook in {notebooks_root()}"


def test_notebooks_hold_little_code():
    lines = [
        line
        for path in NOTEBOOKS
        for cell in code_cells(path)
        for line in cell.source.splitlines()
        if line.strip() and line.strip()[0] != "#"
    ]
    assert len(lines) < MOST_LINES * len(NOTEBOOKS)


@each_notebook
def test_the_prose_uses_exactly_the_numbers_of_the_page(path):
    notebook = read(path)
    assert {key for key, _ in numbers_in_prose(notebook)} == glued(notebook).keys()


@each_notebook
def test_declares_the_parameters(path):
    code = "\n".join(cell.source for cell in code_cells(path))
    wanted = PARAMETERS if "page.get(" in code else {"profile"}
    if "language_task" in code:  # nobody trains these models, and their text is so many tokens
        wanted = wanted - {"n_examples", "seed"}
    assert set(notebook_parameters(path)) >= wanted
    # what a page takes it uses
    body = code.split("from headprune_lib", 1)[1]
    assert all(re.search(rf"\b{name}\b", body) for name in notebook_parameters(path))


@each_notebook
def test_was_run_from_top_to_bottom(path):
    counts = [cell.execution_count for cell in code_cells(path) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))


@each_notebook
def test_has_no_machine_noise(path):
    notebook = read(path)
    assert "papermill" not in notebook.metadata
    for cell in notebook.cells:
        assert not {"papermill", "execution"} & cell.metadata.keys()
        assert "injected-parameters" not in cell.metadata.get("tags", [])
        for output in cell.get("outputs", []):
            assert output.output_type != "error", output
            assert output.get("name") != "stderr", output
            for text in texts(output):
                assert not MACHINE.search(text), MACHINE.search(text)


@each_notebook
def test_checked_cells_have_outputs_to_compare(path):
    # nbval runs a cell without stored outputs, and compares nothing.
    for cell in code_cells(path):
        if "nbval-check-output" in cell.metadata.get("tags", []):
            assert any(text.strip() for output in cell.outputs for text in texts(output)), cell


@each_notebook
def test_images_have_alt_text(path):
    for cell in code_cells(path):
        if any(kind.startswith("image/") for out in cell.outputs for kind in out.get("data", {})):
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            assert len(alt.split()) >= 5, f"alt text {alt!r} of the figure of\n{cell.source}"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if path.stem in FIRST else pytest.mark.nightly)
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
def test_runs_on_the_smoke_profile(path, smoke, tmp_path):
    """What one notebook measures the next ones read, as in the book."""
    committed = path.read_bytes()
    written = read(run_notebook(path, {"profile": "smoke"}, tmp_path / path.name))
    code = "\n".join(cell.source for cell in code_cells(path))
    if "page.get(" in code:
        assert store.find(root=results_folder(smoke)), "nothing was measured"
    numbers = glued(written)
    for key, form in numbers_in_prose(written):  # those of other models are not measured there
        assert format_plain_text(numbers[key], form), key
    assert path.read_bytes() == committed


@pytest.mark.slow
def test_plain_papermill_refuses_a_parameter_that_a_notebook_does_not_have(tmp_path, monkeypatch):
    for name in ("RESULTS", "CACHE"):
        monkeypatch.setenv(f"HEADPRUNE_{name}", str(tmp_path / name))
    with pytest.raises(PapermillExecutionError, match="'n_exampels': did you mean n_examples"):
        papermill.execute_notebook(
            str(NOTEBOOKS[0]),
            None,
            parameters={"profile": "smoke", "n_exampels": 100},
            kernel_name="python3",
            progress_bar=False,
        )
    assert not list(tmp_path.iterdir())


# The runner itself, on a notebook made here.


@pytest.fixture
def small(tmp_path) -> Path:
    """Parameters, then a cell that shows a path and a progress bar, then one that may fail."""
    cell = nbformat.v4.new_code_cell
    cells = [
        cell("n = 2\nfresh = False", metadata={"tags": ["parameters"]}, id="one"),
        cell(
            "import os, sys\n"
            "print('50%', file=sys.stderr)\n"
            "print(os.path.expanduser('~/x'), os.getcwd())\n"
            "n",
            id="two",
        ),
        cell("1 / n", id="three"),
    ]
    path = tmp_path / "small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=PYTHON), path)
    return path


@pytest.mark.slow
def test_running_in_place_twice_changes_nothing(small):
    assert run_notebook(small) == small
    once = small.read_text()
    assert '"execution_count": 3' in once and "papermill" not in once
    (shown, value) = read(small).cells[1].outputs
    assert shown.text.startswith("~/x ") and not MACHINE.search(shown.text)
    assert value.data["text/plain"] == "2"
    run_notebook(small, {"fresh": True})
    assert small.read_text() == once


def test_paths_are_relative_and_neighbours_of_the_project_are_not_mistaken_for_it(monkeypatch):
    monkeypatch.setattr(notebooks, "project_root", lambda: Path("/data/book"))
    monkeypatch.setattr(Path, "home", lambda: Path("/data/bookhome"))
    text = "/data/book/a.py in /data/book, not /data/bookhome/b or /data/book-2/c"
    assert notebooks._relative(text) == "a.py in ., not ~/b or /data/book-2/c"


@pytest.mark.slow
def test_a_changed_parameter_is_recorded(small, tmp_path):
    before = small.read_text()
    written = run_notebook(small, {"n": 4}, tmp_path / "out.ipynb")
    assert "n = 4" in [cell.source.splitlines()[-1] for cell in read(written).cells]
    assert read(written).cells[-1].outputs[0].data["text/plain"] == "0.25"
    assert small.read_text() == before


@pytest.mark.slow
def test_a_failing_notebook_is_left_as_it_was(small):
    before = small.read_bytes()
    with pytest.raises(PapermillExecutionError, match="ZeroDivisionError"):
        run_notebook(small, {"n": 0})
    assert small.read_bytes() == before
    assert list(small.parent.iterdir()) == [small]


def test_an_unknown_parameter_is_refused_with_the_nearest(small):
    with pytest.raises(
        WrongParameter, match="parameter of .* 'frsh': did you mean fresh.*fresh, n"
    ):
        run_notebook(small, {"frsh": True})


def test_a_notebook_without_parameters_is_refused(tmp_path):
    path = tmp_path / "bare.ipynb"
    cells = [nbformat.v4.new_code_cell("1")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=PYTHON), path)
    with pytest.raises(WrongParameter, match="bare.ipynb has no cell tagged 'parameters'"):
        run_notebook(path)


def test_an_unknown_notebook_is_refused_with_the_nearest():
    name = NOTEBOOKS[0].stem
    with pytest.raises(FileNotFoundError, match=f"did you mean .*{name}"):
        find_notebook(name[:-1])


@each_notebook
def test_a_short_name_works_from_anywhere(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_notebook(path.stem) == path


def test_a_missing_output_folder_is_named_before_anything_runs(small, tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder .*nowhere"):
        run_notebook(small, output=tmp_path / "nowhere" / "out.ipynb")
