"""Find notebooks by name, run them with papermill, and store them without machine noise.

A stored notebook contains what was computed, but not when or where: executing it again with
unchanged results gives an empty diff.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from headprune_lib.messages import unknown
from headprune_lib.replication.lazy import nbformat, papermill
from headprune_lib.replication.pages.page import WrongParameter, read_parameters
from headprune_lib.replication.pages.reruns import as_html, mark_as_rerun
from headprune_lib.replication.paths import absolute, project_root
from headprune_lib.replication.store.files import check_writable, replace_files

KERNEL = "python3"
# Parameters that say how a result is obtained, not which one: they leave no trace in a notebook.
HOW_NOT_WHAT = frozenset({"fresh"})


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


def notebook_parameters(path: Path) -> dict[str, Any]:
    """The parameters that a notebook declares, with the source text of their defaults.

    Raises:
        WrongParameter: the notebook has no cell tagged ``parameters``.
    """
    cells = json.loads(path.read_text("utf-8")).get("cells", ())
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
            measurement.
        output: path of the executed notebook; in place by default. An existing file stays
            untouched if the run fails.

    With parameters that change the result, an HTML page is written next to ``output``.

    Returns:
        The path of the stored notebook.

    Raises:
        FileNotFoundError: no such notebook, or no folder for ``output``.
        OSError: the folder cannot be written to.
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
        kernel_name=KERNEL,
        cwd=str(notebooks_root()),
        progress_bar=False,
        stderr_file=sys.stderr,  # the measurements' own progress bars
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
    notebook.metadata.pop("papermill", None)
    notebook.metadata.pop("widgets", None)
    notebook.metadata.get("language_info", {}).pop("version", None)
    if not keep_injected:
        notebook.cells = [
            cell
            for cell in notebook.cells
            if "injected-parameters" not in cell.metadata.get("tags", [])
        ]
    count = 0
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if not cell.metadata.get("tags", True):
            del cell.metadata["tags"]
        if cell.cell_type != "code":
            continue
        if cell.execution_count is not None:
            count += 1
            cell.execution_count = count
        cell.outputs = _joined([output for output in cell.outputs if not _is_noise(output)])
        for output in cell.outputs:
            _clean_output(output, cell.execution_count)


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join printed text: the pieces in which it arrives depend on the kernel's timing."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and joined and joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


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
