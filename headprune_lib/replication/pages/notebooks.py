"""Find notebooks by name, run them with papermill, and store them without machine noise.

A stored notebook contains what was computed, but not when or where: executing it again with
unchanged results gives an empty diff. One run with a user's own parameters is marked as such, and
readable without the book.
"""

from __future__ import annotations

import ast
import html
import itertools
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from headprune_lib.messages import unknown
from headprune_lib.replication.lazy import nbformat, papermill
from headprune_lib.replication.pages.page import WrongParameter, read_parameters
from headprune_lib.replication.paths import absolute, project_root
from headprune_lib.replication.store.files import check_writable, replace_files

# Parameters that say how a result is obtained, not which one: they leave no trace in a notebook.
HOW_NOT_WHAT = frozenset({"fresh"})
_RERUN = "headprune_rerun"  # in a notebook's metadata: the parameters that it was run with
_ROLE = re.compile(r"\{([a-z:]+)\}`([^`<]*?)\s*(?:<[^`>]*>)?`")


def notebooks_root() -> Path:
    """The folder of the project's notebooks, which is also their working directory."""
    return project_root() / "notebooks"


def find_notebook(name: str | Path) -> Path:
    """Find a notebook by a path, or by the short name of one of the project's.

    Args:
        name: a path with or without ``.ipynb``, or a name in ``notebooks/`` such as
            ``01_one_head``, or the beginning of one, such as ``1``, whatever the working directory.

    Raises:
        FileNotFoundError: no such notebook; the message names the nearest ones.
    """
    asked = Path(name).expanduser()
    if asked.suffix != ".ipynb":
        asked = asked.with_name(asked.name + ".ipynb")
    for path in (asked, notebooks_root() / asked):
        if path.is_file():
            return path.resolve()
    known = sorted(
        path.stem for path in notebooks_root().glob("*.ipynb") if not path.stem.endswith("-run")
    )
    begun = [stem for stem in known if stem.startswith(asked.stem.zfill(2))]
    if len(begun) == 1 and asked.parent == Path():
        return (notebooks_root() / f"{begun[0]}.ipynb").resolve()
    raise FileNotFoundError(unknown("notebook", asked.stem, known))


def notebook_parameters(path: Path) -> dict[str, str]:
    """The parameters that a notebook declares, with the source text of their defaults.

    Raises:
        WrongParameter: the notebook has no cell tagged ``parameters``.
    """
    cells = json.loads(path.read_text("utf-8")).get("cells", ())  # papermill's import takes 2 s
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", ())]
    if not tagged:
        raise WrongParameter(f"{path.name} has no cell tagged 'parameters'")
    return {
        target.id: ast.unparse(line.value)
        for line in ast.parse("".join(tagged[0]["source"])).body
        if isinstance(line, ast.Assign)
        for target in line.targets
    }


def check_values(path: Path, parameters: Mapping[str, Any]) -> None:
    """Raise WrongParameter for values that a notebook would refuse, without starting a kernel."""
    declared = notebook_parameters(path)
    for name in parameters:
        if name not in declared:
            raise WrongParameter(unknown(f"parameter of {path.name}", name, declared))
    if "profile" in declared:
        defaults = {name: ast.literal_eval(default) for name, default in declared.items()}
        read_parameters(defaults | dict(parameters))


def parse_value(text: str) -> Any:
    """Parse a parameter's value from the command line as YAML; ValueError if it is not valid.

    >>> [parse_value(text) for text in ("256", "1e-3", "True", "default", "[0, 1]")]
    [256, 0.001, True, 'default', [0, 1]]
    """
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"{text!r} cannot be read. Give a number, a word or a YAML list") from None
    if isinstance(value, str):
        try:  # YAML 1.1 takes 1e-3 for a word
            return float(value)
        except ValueError:
            return value
    return value


def run_notebook(
    path: str | Path, parameters: Mapping[str, Any] | None = None, output: str | Path | None = None
) -> Path:
    """Execute a notebook and store it without machine noise, if it ran to its end.

    Args:
        path: a notebook, or the short name of one of the project's.
        parameters: values that replace those of the cell tagged ``parameters``. The cell that
            records them stays in the stored notebook, unless it only asked for a fresh
            measurement. If they change the result, an HTML page is written next to ``output``.
        output: path of the executed notebook; in place by default. An existing file stays
            untouched if the run fails.

    Raises:
        OSError: no such notebook, no folder for ``output``, or it cannot be written to.
        WrongParameter: a parameter that the notebook does not declare.
        papermill.PapermillExecutionError: a cell failed; the message holds its traceback.
    """
    source = find_notebook(path)
    target = source if output is None else absolute(output)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(target.parent)!r} to write {target.name} into")
    check_writable(target.parent)
    check_values(source, parameters := dict(parameters or {}))
    # the kernel works in another folder
    values = dict(parameters)
    if parameters.get("data") not in (None, "hub"):
        parameters["data"] = str(absolute(parameters["data"]))
    if Path(model := str(parameters.get("model"))).is_dir():
        parameters["model"] = str(absolute(model))
    if os.environ.get("HEADPRUNE_DATA"):
        os.environ["HEADPRUNE_DATA"] = str(absolute(os.environ["HEADPRUNE_DATA"]))
    sys.stderr.write(f"{source.stem} …\n")
    notebook = papermill.execute_notebook(
        str(source),
        None,  # written below: papermill itself would leave a failed run in the file
        parameters=parameters,
        kernel_name="python3",
        cwd=str(notebooks_root()),
        progress_bar=False,
        stderr_file=sys.stderr,  # the measurements' own progress bars
        coalesce_streams=True,  # the pieces in which printed text arrives depend on timing
        extra_arguments=["--log-level=CRITICAL"],  # not the kernel's own messages
    )
    rerun = not parameters.keys() <= HOW_NOT_WHAT
    strip_noise(notebook, keep_injected=rerun)
    files = {}
    if rerun:
        mark_as_rerun(notebook, values)
        files[target.with_suffix(".html")] = as_html(notebook, target.stem).encode()
    replace_files({**files, target: (nbformat.writes(notebook) + "\n").encode()})
    return target


def strip_noise(notebook: nbformat.NotebookNode, keep_injected: bool = False) -> None:
    """Remove, in place, everything that depends on the time and the machine of a run.

    That is papermill's records, timings, the interpreter's version, stderr (progress bars,
    warnings), widgets and absolute paths; execution counts are renumbered from 1.

    Args:
        notebook: an executed notebook, format 4.
        keep_injected: keep the cell of parameters that papermill injected.
    """
    for name in ("papermill", "widgets"):
        notebook.metadata.pop(name, None)
    notebook.metadata.get("language_info", {}).pop("version", None)
    if not keep_injected:
        notebook.cells = [
            cell
            for cell in notebook.cells
            if "injected-parameters" not in cell.metadata.get("tags", [])
        ]
    counts = itertools.count(1)
    for cell in notebook.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if not cell.metadata.get("tags", True):
            del cell.metadata["tags"]
        if cell.cell_type == "code":
            if cell.execution_count is not None:
                cell.execution_count = next(counts)
            cell.outputs = [output for output in cell.outputs if not _is_noise(output)]
            for output in cell.outputs:
                _clean_output(output, cell.execution_count)


def _is_noise(output: nbformat.NotebookNode) -> bool:
    if output.output_type == "stream":
        return output.name == "stderr"
    return "application/vnd.jupyter.widget-view+json" in output.get("data", {})


def _clean_output(output: nbformat.NotebookNode, execution_count: int | None) -> None:
    if "execution_count" in output:
        output.execution_count = execution_count
    if output.output_type == "stream":
        output.text = _relative(output.text)
    for kind, content in output.get("data", {}).items():
        if isinstance(content, str) and (not kind.startswith("image/") or kind == "image/svg+xml"):
            output.data[kind] = _relative(content)


def _relative(text: str) -> str:
    """The text with project paths made relative, and home and temporary folders abbreviated."""
    root, home, scratch = str(project_root()), str(Path.home()), tempfile.gettempdir()
    text = re.sub(
        re.escape(root) + r"(?![\w.-])/?", lambda found: "" if found[0][-1] == "/" else ".", text
    )
    for folder, name in ((home, "~"), (scratch, "$TMPDIR")):
        if folder != os.sep:
            text = text.replace(folder + os.sep, name + "/")
    return text


# --- runs with a user's own parameters -------------------------------------------------------------


def name_of_rerun(folder: Path, stem: str, parameters: Mapping[str, Any]) -> Path:
    """The file of a run with these parameters: ``<stem>-run.ipynb``, numbered if others exist.

    A run with the same parameters replaces the one before; no other file is overwritten.
    """
    asked = json.dumps(dict(parameters), sort_keys=True)
    names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    paths = (folder / f"{name}-run.ipynb" for name in names)
    return next(path for path in paths if not path.exists() or _parameters_of(path) == asked)


def _parameters_of(path: Path) -> str | None:
    try:
        return nbformat.read(path, as_version=4).metadata.get(_RERUN)
    except (OSError, ValueError, nbformat.ValidationError):
        return None


def mark_as_rerun(notebook: nbformat.NotebookNode, parameters: Mapping[str, Any]) -> None:
    """Say at the top, in place, what was changed, and put MyST's roles into plain words."""
    notebook.metadata[_RERUN] = json.dumps(dict(parameters), sort_keys=True)
    changed = ", ".join(f"`{name} = {value!r}`" for name, value in parameters.items())
    banner = (
        f"> **This is a run with parameters of your own: {changed}.** The text was written about the "
        "committed results. What this run measured takes the place of the committed result of the same "
        "table or figure; other models and tasks beside it are the committed ones. A conclusion that "
        "this run does not bear out is marked *Not with these parameters* and given without numbers."
    )
    cell = nbformat.v4.new_markdown_cell(banner, id="rerun", metadata={"tags": ["rerun"]})
    notebook.cells.insert(0, cell)
    in_plain_words(notebook)


def in_plain_words(notebook: nbformat.NotebookNode) -> None:
    """Replace MyST's citations and links, which Jupyter shows as raw text, with plain words."""
    authors = _authors()

    def plain(found: re.Match[str]) -> str:
        role, text = found.groups()
        if not role.startswith("cite"):
            return text
        name, year = authors.get(text, (text, ""))
        return f"{name} ({year})" if role == "cite:t" else f"({name}, {year})"

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _ROLE.sub(plain, cell.source)
        for output in cell.get("outputs", ()):
            if "text/markdown" in output.get("data", {}):
                output.data["text/markdown"] = _ROLE.sub(plain, output.data["text/markdown"])


def _authors() -> dict[str, tuple[str, str]]:
    """Key of a reference -> its authors, as cited in a text, and its year."""
    from pybtex.database import parse_file  # as the book's builder reads the file

    cited = {}
    for key, entry in parse_file(project_root() / "book" / "references.bib").entries.items():
        names = [
            " ".join([*person.prelast_names, *person.last_names]).strip("{}")
            for person in entry.persons["author"]
        ]
        authors = names[0] + (
            " et al." if len(names) > 2 else f" and {names[1]}" if names[1:] else ""
        )
        cited[key] = (authors, entry.fields.get("year", ""))
    return cited


def as_html(notebook: nbformat.NotebookNode, title: str) -> str:
    """The notebook as a self-contained HTML page, with code folded away."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    body = "\n".join(part for cell in notebook.cells for part in _parts(cell, markdown.render))
    style = (
        "body{max-width:52rem;margin:2rem auto;padding:0 1rem;font:16px/1.5 sans-serif}"
        "blockquote{border-left:4px solid #c60;margin:0;padding:.2rem 1rem;background:#fff4e5}"
        "pre{overflow:auto;background:#f6f6f6;padding:.6rem}table{border-collapse:collapse}"
        "td,th{padding:.2rem .6rem;text-align:left}svg,img{max-width:100%;height:auto}"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
        f"<style>{style}</style></head><body>\n{body}\n</body></html>\n"
    )


def _parts(cell: nbformat.NotebookNode, rendered: Any) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield rendered(cell.source)
        return
    yield f"<details><summary>code</summary><pre>{html.escape(cell.source)}</pre></details>"
    shown = {  # an output is shown as the first of these that it has
        "text/html": str,
        "image/svg+xml": str,
        "image/png": '<img src="data:image/png;base64,{}" alt="">'.format,
        "text/markdown": rendered,
        "text/plain": lambda text: f"<pre>{html.escape(text)}</pre>",
    }
    for output in cell.get("outputs", ()):
        is_printed = output.output_type == "stream"
        data = {"text/plain": output.text} if is_printed else output.get("data", {})
        yield next((shown[kind](data[kind]) for kind in shown if kind in data), "")


def open_copy(notebook: Path, folder: Path) -> tuple[Path, list[str]]:
    """Make a working copy of a notebook unless there is one; return it and the command to open it.

    Raises:
        ValueError: neither JupyterLab nor Jupyter Notebook is installed.
    """
    program = next((name for name in ("jupyterlab", "notebook") if find_spec(name)), None)
    if program is None:
        raise ValueError("neither jupyterlab nor notebook is installed. Run pip install jupyterlab")
    copy = folder / notebook.name
    if not copy.exists():
        opened = nbformat.read(notebook, as_version=4)
        in_plain_words(opened)
        replace_files({copy: (nbformat.writes(opened) + "\n").encode()})
    return copy, [sys.executable, "-m", program, str(copy)]
