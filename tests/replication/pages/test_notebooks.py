"""The committed notebooks show what their code makes now, are clean, and run with other parameters."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from headprune_lib.replication import store
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.pages import notebooks
from headprune_lib.replication.pages.display import NOT_BORNE_OUT
from headprune_lib.replication.pages.notebooks import (
    notebook_parameters,
    notebooks_root,
    run_notebook,
)
from headprune_lib.replication.pages.page import PARAMETERS
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.titles import spelled

NOTEBOOKS = sorted(
    path for path in notebooks_root().glob("*.ipynb") if not path.stem.endswith("-run")
)
# A folder of somebody's machine, or an object's address in memory.
MACHINE = re.compile(
    r"(?<![\w.~/$])/(?:root|home|tmp|Users|private|var/folders)/|\.venv/| at 0x[0-9a-f]+"
)
# A sentence on what others published, which no run changes; page 09 is about little else.
PUBLISHED = re.compile(r"\bthe paper|BERT-base|HIES|^09_independent")
ITS_TASKS = {"MNLI", "SST-2", "CoLA", "MRPC", "English-French", "German-English"}


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


def outputs_of(notebook) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def html_of(outputs) -> list[str]:
    """Tables whole; of a figure its words and what describes it, not where its lines are."""
    label, words = r'aria-label="[^"]*"', r">\s*[^<>\s][^<>]*<"
    pictures = re.compile(r"<svg.*?</svg>", re.DOTALL)
    return [
        pictures.sub(lambda one: "".join(re.findall(f"{label}|{words}", one[0])), html)
        for output in outputs
        if (html := output.get("data", {}).get("text/html"))
    ]


def words_of(outputs) -> list[str]:
    """The paragraphs that cells wrote."""
    return [text for output in outputs if (text := output.get("data", {}).get("text/markdown"))]


def names(folder: Path) -> set[str]:
    """What pages call the models and tasks of a folder's results, without what is in parentheses."""
    keys = store.find(root=folder)
    return {spelled(name).partition(" (")[0] for key in keys for name in (key.model, key.task)}


def said_of_others(notebook, stem: str, folder: Path) -> list[str]:
    """Sentences and captions, not marked, with a committed model or task that folder has not."""
    others = names(project_root() / "data" / "results") - names(folder)
    outputs = outputs_of(notebook)
    paragraphs = [text for text in words_of(outputs) if not text.startswith(NOT_BORNE_OUT)]
    paragraphs += [output.text for output in outputs if output.output_type == "stream"]
    for html in html_of(outputs):
        around = re.sub(r"<tbody.*?</tbody>", " ", html, flags=re.DOTALL)
        paragraphs += [re.sub(r"<[^>]*>", " ", around)]
    return [
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=\.)\s", paragraph)
        for name in others - (ITS_TASKS if PUBLISHED.search(f"{stem} {sentence}") else set())
        if re.search(rf"\b{re.escape(name)}\b", sentence)
    ]


@pytest.fixture(scope="module")
def shell():
    shell = InteractiveShell.instance()
    yield shell
    shell.restore_sys_module_state()  # it has a `__main__` of its own
    InteractiveShell.clear_instance()
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_gives_what_is_stored(path, shell):
    """Each number, table, verdict and figure's description, from the results as they are now."""
    shell.reset()
    for cell in code_cells(path):
        with capture_output() as captured:
            done = shell.run_cell(cell.source)
        done.raise_error()
        made = [{"data": out.data, "metadata": out.metadata} for out in captured.outputs]
        if done.result is not None:
            shown, _ = shell.display_formatter.format(done.result)
            made.append({"data": shown})
        assert html_of(made) == html_of(cell.outputs), "run `headprune run` to store it"
        assert words_of(made) == words_of(cell.outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_clean_and_was_run_from_top_to_bottom_with_conclusions_that_are_borne_out(path):
    """Jupyter shows a mark of MyST's glue as it is written: cells print their numbers."""
    notebook = read(path)
    text = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "{glue:" not in text
    wanted = {"profile", "fresh", *PARAMETERS}
    assert set(notebook_parameters(path)) <= wanted, "open_page would ignore it"
    assert NOT_BORNE_OUT not in "\n".join(words_of(outputs_of(notebook))), "write it anew"
    counts = [cell.execution_count for cell in code_cells(path) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))
    assert "papermill" not in notebook.metadata
    for cell in notebook.cells:
        assert not {"papermill", "execution"} & cell.metadata.keys()
        tags = {*cell.metadata.get("tags", [])}
        assert "injected-parameters" not in tags
        if cell.cell_type == "code" and not tags & {"hide-input", "remove-input"}:
            lines = cell.source.splitlines()
            assert len(lines) <= 10 and max(map(len, lines)) <= 80, cell.source
        for output in cell.get("outputs", []):
            assert output.output_type != "error" and output.get("name") != "stderr", output
            assert not any(kind.startswith("image/") for kind in output.get("data", {}))
            assert not any(map(MACHINE.search, texts(output)))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.nightly if number else pytest.mark.slow, id=path.stem)
        for number, path in enumerate(NOTEBOOKS)
    ],
)
def test_runs_on_the_smoke_profile(path, smoke, tmp_path):
    """What one notebook measures the next ones read, as in the book."""
    committed = path.read_bytes()
    written = read(run_notebook(path, {"profile": "smoke"}, tmp_path / path.name))
    if "page.get(" in "\n".join(cell.source for cell in code_cells(path)):
        assert store.find(root=results_folder(smoke)), "nothing was measured"
    assert words_of(outputs_of(written)), "the page says nothing"
    assert not said_of_others(written, path.stem, results_folder(smoke))
    assert path.read_bytes() == committed


def test_what_is_opened_is_a_copy_in_plain_words_that_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "find_spec", lambda name: name == "jupyterlab")
    copy, command = notebooks.open_copy(NOTEBOOKS[0], tmp_path)
    assert command[-2:] == ["jupyterlab", str(copy)] and "Michel et al. (2019)" in copy.read_text()
    copy.write_text("my own")
    assert notebooks.open_copy(NOTEBOOKS[0], tmp_path)[0].read_text() == "my own"
