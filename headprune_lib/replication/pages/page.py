"""The results behind a page, each under the name of its model and task."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headprune_lib.messages import unknown
from headprune_lib.replication import measurements, planning
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.lazy import setups, torch, utils
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.models.encoders import recipe, weights_path
from headprune_lib.replication.models.translators import stored_weights
from headprune_lib.replication.paper import name_of
from headprune_lib.replication.profiles import Profile, check_here, load_profile
from headprune_lib.replication.store import Key, Result
from headprune_lib.replication.titles import setting


class WrongParameter(ValueError):
    """A parameter that a notebook does not have, or a value that it cannot have."""


PARAMETERS = (
    "task",
    "model",
    "language_task",
    "language_model",
    "n_examples",
    "n_verses",
    "seed",
    "translation_seed",
    "data",
    "device",
)
"""Settings of its profile that a notebook may override; ``None`` keeps the profile's value."""


def open_page(parameters: Mapping[str, Any]) -> Page:
    """Open the page with a notebook's parameters: ``open_page(globals())``.

    Args:
        parameters: ``profile``, the name of a profile; ``fresh``, whether to measure again what
            is stored; any of :data:`PARAMETERS`. Other names are ignored.

    Raises:
        WrongParameter: papermill was given a parameter that the notebook does not have, a value
            is wrong, or the device is not available.
    """
    from IPython import get_ipython  # no notebook is needed to read its parameters

    shell = get_ipython()
    check_injected(shell.user_ns["In"] if shell else ())
    return Page(read_parameters(parameters), parameters.get("fresh", False))


def read_parameters(parameters: Mapping[str, Any]) -> Profile:
    """The profile that a notebook's parameters mean; arguments and errors of :func:`open_page`."""
    fresh = parameters.get("fresh", False)
    values = {name: parameters[name] for name in PARAMETERS if name in parameters}
    values["n_headline"] = values.get("n_verses")
    try:
        if not isinstance(fresh, bool):
            raise ValueError(f"fresh is {fresh!r}. Give True or False")
        settings = load_profile(parameters["profile"], **values)
        check_here(settings)
    except ValueError as error:
        raise WrongParameter(str(error)) from None
    return settings


def check_injected(cells: Sequence[str]) -> None:
    """Raise WrongParameter for a name that papermill sets but no earlier cell does.

    Papermill adds a cell after the one tagged ``parameters`` and accepts every name.

    Args:
        cells: the sources of the cells that were run, in order.
    """
    declared: set[str] = set()
    for cell in cells:
        try:
            nodes = [*ast.walk(ast.parse(cell))]
        except SyntaxError:  # in a cell that somebody tried by hand
            continue
        names = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if cell.startswith("# Parameters\n") and (wrong := sorted(names - declared)):
            raise WrongParameter(unknown("parameter", wrong[0], declared))
        declared |= names


class Page:
    """A page's own results, and those of other models and tasks to show alongside."""

    def __init__(self, settings: Profile, fresh: bool = False) -> None:
        self.settings, self.fresh = settings, fresh
        self._own: dict[str, list[Result]] = {}

    def get(self, name: str, task: str | None = None) -> Result:
        """The page's own result of a measurement, named as in the paper: loaded or measured now.

        Args:
            task: the language pair of a translation measurement; the main one if not given.
        """
        result = measurements.get(
            name, self.settings, task=task, fresh=self.fresh, announce=planning.announce
        )
        self._own.setdefault(name, []).append(result)
        return result

    def classifier(
        self, n: int, split: str = "test", elsewhere: bool = False
    ) -> tuple[torch.nn.Module, list[utils.Batch]]:
        """The page's fine-tuned classifier, and the first texts of a split in labelled batches.

        A committed model replaces one whose weights are missing, so that a notebook that shows
        stored numbers does not train for hours.

        Args:
            n: number of texts.
            split: ``"test"`` or ``"train"``.
            elsewhere: whether to take texts of the task's first other domain.
        """
        settings = self.settings
        weights = weights_path(settings.model, recipe(settings, settings.seed))
        here = settings.folder or weights.is_file()
        if not here or (elsewhere and not settings.domains):
            settings = load_profile()
        subject = setups.EncoderSubject.of(settings)
        task = settings.domains[0] if elsewhere else settings.task
        texts = TASKS[task].split(split, settings.data).first(n)
        return subject.model, subject.batches(texts).batches

    def translator(
        self, n: int, split: str = "test", task: str | None = None, model: str | None = None
    ) -> tuple[torch.nn.Module, list[utils.Batch]]:
        """Like :meth:`classifier`: the page's translator, and sentence pairs as batches whose
        labels are the reference's tokens.

        Args:
            task: the language pair; the main one if not given.
            model: one of the task's models in the profile; the measured one if not given.
        """
        subject = self._translation(task, model)
        return subject.model, subject.forced(subject.split(split).first(n)).batches

    def decode(self, ids: torch.Tensor) -> list[str]:
        """Decode the main translator's ids into texts, one per row."""
        return self._translation().translator.pieces.texts(ids.tolist())

    def _translation(
        self, task: str | None = None, model: str | None = None
    ) -> setups.TranslationSubject:
        settings, task = self.settings, task or self.settings.translation_task
        if model:
            settings = load_profile(settings.name, **{**settings.given, "translation_model": model})
        named, seed = settings.model_of(task), settings.trainings(task)[0]
        if not settings.folder and not stored_weights(settings, task, seed, model=named):
            settings, task = load_profile(), load_profile().translation_task
        return setups.TranslationSubject.of(settings, task)

    @property
    def folder(self) -> Path:
        """The folder of the stored results of the page's profile."""
        return results_folder(self.settings)

    def found(self, *names: str) -> dict[str, Result]:
        """Name -> result for every model and task, including those that the page has asked for."""
        own = [result for name in names for result in self._own.get(name, ())]
        return collect(measurements.found(*names, root=self.folder), own)

    def of(self, name: str) -> dict[str, Result]:
        """Name -> result for every model and task that a paper's figure covers, own ones first.

        Of a measurement without a figure all are covered. ``found`` takes all tasks of the
        measurement and half, such as Figure 6d's for Figure 3a.
        """
        own = self._own.get(name, ())
        shown = {
            label: result
            for label, result in self.found(name).items()
            if name_of(result.measurement, measurements.half_of(result), result.task) == name
        }
        return dict(sorted(shown.items(), key=lambda item: not _is_among(item[1], own)))


def collect(stored: Iterable[Result], own: Iterable[Result] = ()) -> dict[str, Result]:
    """Name -> result: the stored ones in their order, then a page's own that are not among them.

    A run with parameters that differ from those of its model and task's stored result is listed
    too, as ``... (this run)``.
    """
    shown = {setting(result): result for result in stored}
    for result in own:
        if not _is_among(result, shown.values()):
            is_taken = setting(result) in shown
            shown[f"{setting(result)} (this run)" if is_taken else setting(result)] = result
    return shown


def pick(shown: Mapping[str, Result], model: str, task: str) -> Result | None:
    """The result of a model on a task, or None; another's result is never used instead."""
    return next(
        (result for result in shown.values() if (result.model, result.task) == (model, task)), None
    )


def _is_among(result: Result, others: Iterable[Result]) -> bool:
    """Whether one of some results is the same, judged by their parts' signatures."""
    return _signed(result) in map(_signed, others)


def _signed(result: Result) -> tuple[Key, dict[str, str]]:
    return result.key, {name: part.signature["digest"] for name, part in result.parts.items()}
