"""The public benchmarks: where their text may lie, as folders lay it out, and on the Hub.

A task is read from the folder given as ``data``, from the Hub for ``data="hub"``, or from the
folder named in ``$HEADPRUNE_DATA``. All go through one path once read, and their examples are put
in order of a hash of their text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from headprune_lib.replication.data.examples import Examples, in_hash_order
from headprune_lib.replication.data.fetched import check_fetched
from headprune_lib.replication.data.sources import MissingData, data_folder
from headprune_lib.replication.data.tables import Hub, Lines, Table, to_examples
from headprune_lib.replication.data.task import Task


@dataclass(frozen=True)
class Amid:
    """Examples of another task amid those of a task's own, to train on both.

    The first and the last half of the task's own come first and last, so that what heads are
    chosen and scored on is of the task itself.
    """

    own: Table
    other: Lines

    @property
    def files(self) -> tuple[str, ...]:
        """Those of both."""
        return (*self.own.files, *self.other.files)


@dataclass(frozen=True)
class Layout:
    """How one release lies on disk: the folder's name, and the files of each split."""

    folder: str
    splits: dict[str, Table | Lines | Amid]

    @property
    def files(self) -> list[str]:
        """Those of all splits, below the folder that is given as ``data``."""
        names = [file for part in self.splits.values() for file in part.files]
        return [f"{self.folder}/{name}" if self.folder else name for name in names]

    def missing(self, root: Path) -> list[str]:
        """The files that ``root`` does not have."""
        return [file for file in self.files if not (root / file).is_file()]


@dataclass(frozen=True, eq=False)
class Benchmark(Task):
    """A public task whose text is not ours to ship.

    Attributes:
        layouts: the releases that are known, the one the committed results are from first.
        hub: the dataset on the Hub, if it is there in a form that can be read.
    """

    layouts: tuple[Layout, ...] = ()
    hub: Hub | None = None

    def load(self, data: str | None = None) -> dict[str, Examples]:
        """The splits by name.

        Args:
            data: a folder, ``"hub"``, or None for ``$HEADPRUNE_DATA``.

        Raises:
            MissingData: the text is not there; says what to put where.
            ValueError: a file that is not laid out as expected (file and line are named).
        """
        if data == "hub":
            try:
                return dict(_from_hub(self))
            except MissingData as error:
                raise MissingData(
                    f"no text for {self.name}: {error}\n{self._help(hub=False)}"
                ) from error
        root = self._root(data)
        if root is None:
            raise MissingData(f"no text for {self.name} at hand.\n{self._help()}")
        return dict(_from_folder(self, root))

    def checksums(self, data: str | None = None) -> dict[str, str]:
        """Checksums of the text at hand; without any, those of the committed results."""
        if data is None and self._root(None) is None:
            return self.registered
        splits = self.load(data)
        return {f"{self.whole}/{split}": examples.sha256 for split, examples in splits.items()}

    def _root(self, data: str | None) -> Path | None:
        """The folder to read; None where none is named, or ``$HEADPRUNE_DATA`` lacks the task."""
        root = data_folder() if data is None else Path(data).expanduser()
        if root is None:
            return None
        if not root.is_dir():
            raise MissingData(f"there is no folder {root}.\n{self._help()}")
        if self._layout(root) is not None:
            return root
        for layout in self.layouts:
            missing = layout.missing(root)
            if len(missing) < len(layout.files):
                raise MissingData(f"{root} lacks {', '.join(missing)} for {self.name}")
        if data is not None:
            raise MissingData(f"{root} holds nothing for {self.name}.\n{self._help()}")
        return None

    def _layout(self, root: Path) -> Layout | None:
        return next((layout for layout in self.layouts if not layout.missing(root)), None)

    def _help(self, hub: bool = True) -> str:
        """What to put where, or, unless it was asked in vain, to ask the Hub."""
        ways = " or ".join(", ".join(layout.files) for layout in self.layouts)
        return (
            f"Put {ways} into a folder and give it as data (--data FOLDER) or in "
            "HEADPRUNE_DATA" + (", or give data=hub (--data hub)." if hub and self.hub else ".")
        )


@lru_cache(maxsize=8)
def _from_folder(task: Benchmark, root: Path) -> tuple[tuple[str, Examples], ...]:
    layout = task._layout(root)
    folder = root / layout.folder
    return tuple((name, _read(part, folder, task.labels)) for name, part in layout.splits.items())


def _read(part: Table | Lines | Amid, folder: Path, labels: tuple[str, ...]) -> Examples:
    if isinstance(part, Amid):
        own, other = (_read(side, folder, labels) for side in (part.own, part.other))
        half = len(own) // 2
        return own.first(half).and_(other).and_(own.after(half))
    return in_hash_order(to_examples(part.rows(folder), labels))


@lru_cache(maxsize=8)
def _from_hub(task: Benchmark) -> tuple[tuple[str, Examples], ...]:
    if task.hub is None:
        raise MissingData("it is not on the Hugging Face Hub in a form that can be read")
    found = tuple(
        (name, in_hash_order(to_examples(task.hub.rows(name), task.labels)))
        for name in task.hub.splits
    )
    where = "/".join(filter(None, (task.hub.path, task.hub.config)))
    check_fetched({f"{where}/{task.hub.splits[name]}": split.sha256 for name, split in found})
    return found


_REGISTERED = {
    "sst2": {
        "sst2/train": "e140b752b2c701a7bc1ffc4ccd268f51425e84a6572328ea49dc5f750d5c237a",
        "sst2/valid": "be13d835c783066a2c19c8569dd3e424e90fb00ea9aa053209e4eb7cee184de6",
        "sst2/test": "87bcbf333de2a7dc28671f9723cd01fdc0cbc869fe9ef647feb55ab0271f44ef",
    },
    "cola": {
        "cola/train": "e211ab8130c367bc43b8108c73a6b19f2d0b24f2b0223cbf34dc526c21bd0c03",
        "cola/test": "bed3ce9d9f3b77204de2e6255fb7ff41992acb100ea23e9700473e4d15be96c9",
    },
    "mrpc": {
        "mrpc/train": "128d2e06930e875e895f2cba8a93c8317de306ae9dcb83945911391635203c89",
        "mrpc/test": "e9c2c2843b2b68976b6a4e46c9b05b15954edac0fb4c5105e5219ad7eaf7cca6",
    },
    "snli": {
        "snli/train": "31bd2da27d96673face160ae8ddf252e1dad1bcf285c157514d0a57c1ece5cd0",
        "snli/test": "4d894b5abf1b1d811a035d8fa649fe9bcfa3bac0381b5b9a553d0db48473db98",
    },
    "mnli": {
        "mnli/train": "92df649f8fcaa006874dbe4f1012d04f45f5b7cb3489eaac89ee470e408c4eed",
        "mnli/test": "53b1517c36e04df042556ca21ef0ef5a58809e0eb0f145fd20b2c2ec0979e119",
    },
    "mnli-mismatched": {
        "mnli-mismatched/test": "831a81681b5245df3e0fc27c8de533db13353a712f97f8849a5c121e63647da2",
    },
    "sick": {
        "sick/test": "967b29202bace7cb5c72373eb503809c5c4ccf7c01785a5eb0266a414b7997e1",
    },
}
"""Checksums of what the committed results were measured on."""

_GLUE = "nyu-mll/glue"
_SENTIMENT = ("negative", "positive")
_INFERENCE = ("entailment", "neutral", "contradiction")
_SICK = {"label": "entailment_judgment", "text": "sentence_A", "second": "sentence_B"}
_PAIR = {"label": "gold_label", "text": "sentence1", "second": "sentence2"}
_HUB_PAIR = {"label": "label", "text": "premise", "second": "hypothesis"}


def _sentences(file: str) -> Table:
    return Table((file,), label="label", text="sentence")


def _acceptable(*files: str) -> Table:
    return Table(files, label=1, text=3, width=4)


def _paraphrases(file: str) -> Table:
    return Table((file,), label="Quality", text="#1 String", second="#2 String")


def _parallel(split: str) -> Lines:
    return Lines(f"labels.{split}", f"s1.{split}", f"s2.{split}")


# the dev split is trained on: enough for a fine-tuning, and 2 MB instead of 90
_SNLI = Benchmark(
    "snli",
    "SNLI, inference between captions",
    _INFERENCE,
    registered=_REGISTERED["snli"],
    short="SNLI",
    layouts=(
        Layout("snli", {"train": _parallel("dev"), "test": _parallel("test")}),
        Layout(
            "SNLI",
            {"train": Table(("dev.tsv",), **_PAIR), "test": Table(("test.tsv",), **_PAIR)},
        ),
    ),
    hub=Hub("stanfordnlp/snli", None, {"train": "validation", "test": "test"}, **_HUB_PAIR),
)

BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "sst2",
        "SST-2, sentences of movie reviews",
        _SENTIMENT,
        registered=_REGISTERED["sst2"],
        short="SST-2",
        layouts=(
            Layout(
                "sst2",
                {
                    split: Table((f"{file}.tsv",), label=1, text=0, width=2)
                    for split, file in (("train", "train"), ("valid", "dev"), ("test", "test"))
                },
            ),
            Layout("SST-2", {"train": _sentences("train.tsv"), "test": _sentences("dev.tsv")}),
        ),
        hub=Hub(_GLUE, "sst2", {"train": "train", "test": "validation"}, "label", "sentence"),
    ),
    Benchmark(
        "cola",
        "CoLA, acceptable English or not",
        ("unacceptable", "acceptable"),
        registered=_REGISTERED["cola"],
        short="CoLA",
        metric="matthews",
        layouts=(
            Layout(
                "cola",
                {
                    "train": _acceptable("in_domain_train.tsv"),
                    "test": _acceptable("in_domain_dev.tsv", "out_of_domain_dev.tsv"),
                },
            ),
            Layout("CoLA", {"train": _acceptable("train.tsv"), "test": _acceptable("dev.tsv")}),
        ),
        hub=Hub(_GLUE, "cola", {"train": "train", "test": "validation"}, "label", "sentence"),
    ),
    Benchmark(
        "mrpc",
        "MRPC, pairs of sentences of news",
        ("different", "paraphrase"),
        registered=_REGISTERED["mrpc"],
        short="MRPC",
        metric="f1",
        layouts=(
            Layout(
                "mrpc",
                {
                    "train": _paraphrases("msr_paraphrase_train.txt"),
                    "test": _paraphrases("msr_paraphrase_test.txt"),
                },
            ),
            Layout("MRPC", {"train": _paraphrases("train.tsv"), "test": _paraphrases("dev.tsv")}),
        ),
        hub=Hub(
            _GLUE,
            "mrpc",
            {"train": "train", "test": "validation"},
            "label",
            "sentence1",
            "sentence2",
        ),
    ),
    _SNLI,
    replace(
        _SNLI,
        name="snli-held",
        title="SNLI, the test pairs that its first results left",
        short="SNLI (held)",
        part_of="snli",
    ),
    Benchmark(
        "sick",
        "SICK, inference between plain sentences",
        _INFERENCE,
        registered=_REGISTERED["sick"],
        short="SICK",
        layouts=(Layout("sick", {"test": Table(("SICK_test_annotated.txt",), **_SICK)}),),
    ),
    Benchmark(
        "mnli",
        "MNLI, matched",
        _INFERENCE,
        registered=_REGISTERED["mnli"],
        short="MNLI",
        layouts=(
            # a twentieth of the training pairs, with as many of SNLI: what can be had in plain files
            Layout(
                "",
                {
                    "train": Amid(
                        Table(("mnli/train_part.tsv",), **_PAIR),
                        Lines("snli/labels.dev", "snli/s1.dev", "snli/s2.dev"),
                    ),
                    "test": Table(("mnli/dev_matched.tsv",), **_PAIR),
                },
            ),
            Layout(
                "MNLI",
                {
                    "train": Table(("train.tsv",), **_PAIR),
                    "test": Table(("dev_matched.tsv",), **_PAIR),
                },
            ),
        ),
        hub=Hub(_GLUE, "mnli", {"train": "train", "test": "validation_matched"}, **_HUB_PAIR),
    ),
    Benchmark(
        "mnli-mismatched",
        "MNLI, mismatched",
        _INFERENCE,
        registered=_REGISTERED["mnli-mismatched"],
        short="MNLI mismatched",
        layouts=(
            Layout("mnli", {"test": Table(("dev_mismatched_part.tsv",), **_PAIR)}),
            Layout("MNLI", {"test": Table(("dev_mismatched.tsv",), **_PAIR)}),
        ),
        hub=Hub(_GLUE, "mnli", {"test": "validation_mismatched"}, **_HUB_PAIR),
    ),
)
