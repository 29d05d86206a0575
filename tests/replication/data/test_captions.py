"""Multi30k from a tiny folder: splits, checksums, refusals."""

import gzip
from pathlib import Path

import pytest

from headprune_lib.replication.data import MissingData
from headprune_lib.replication.data.captions import FILES
from headprune_lib.replication.data.verses import TRANSLATION_TASKS
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.obtaining import signature
from headprune_lib.replication.profiles import load_profile

MULTI30K = TRANSLATION_TASKS["multi30k"]
LENGTHS = {"train": 145, "val": 20, "test_2016_flickr": 30}


def write(root: Path, packed: bool = False) -> Path:
    """Sentences of made-up words, as :mod:`verses` makes them, in Multi30k's files."""
    rows = TRANSLATION_TASKS["toy"].load()["train"].first(sum(LENGTHS.values()))
    (root / "multi30k").mkdir(parents=True)
    start = 0
    for file, n in LENGTHS.items():
        for side, texts in (("de", rows.sources), ("en", rows.targets)):
            content = ("\n".join(texts[start : start + n]) + "\n").encode()
            path = root / "multi30k" / f"{file}.{side}"
            path = path.with_name(f"{path.name}.gz") if packed else path
            path.write_bytes(gzip.compress(content) if packed else content)
        start += n
    return root


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path / "text"))
    return write(tmp_path / "text")


def lines(folder: Path, name: str) -> list[str]:
    return (folder / "multi30k" / name).read_text("utf-8").splitlines()


def test_the_official_splits_with_a_part_of_the_training_captions_kept_for_importance(folder):
    splits = MULTI30K.load()
    assert set(splits) == {"train", "valid", "score", "test"}
    for name, file in (("valid", FILES["valid"]), ("test", FILES["test"])):
        assert sorted(splits[name].sources) == sorted(lines(folder, f"{file}.de"))
    for split, file in (("train", "train"), ("score", "train"), ("test", "test_2016_flickr")):
        for (line,), source, target in zip(
            splits[split].places, splits[split].sources, splits[split].targets, strict=True
        ):
            assert source == lines(folder, f"{file}.de")[line - 1]
            assert target == lines(folder, f"{file}.en")[line - 1]
    trained, scored = splits["train"], splits["score"]
    assert sorted(trained.places + scored.places) == [(line,) for line in range(1, 146)]
    assert 1 <= len(scored) <= 15
    pairs = [set(zip(part.sources, part.targets, strict=True)) for part in (trained, scored)]
    assert not pairs[0] & pairs[1]  # of equal sentences all are on one side
    assert trained.places != tuple(sorted(trained.places))  # so that the first n are a sample


def test_compressed_files_are_the_same_text(folder, tmp_path, monkeypatch):
    plain = MULTI30K.load()
    before = MULTI30K.checksums
    assert before != MULTI30K.registered
    monkeypatch.setenv("HEADPRUNE_DATA", str(write(tmp_path / "packed", packed=True)))
    assert MULTI30K.load() == plain and MULTI30K.checksums == before


def test_without_the_text_it_says_what_to_put_where(folder, tmp_path, monkeypatch):
    (folder / "multi30k" / "val.en").unlink()
    with pytest.raises(MissingData, match=r"lacks multi30k/val\.en for multi30k"):
        MULTI30K.load()
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path))  # a folder with other text
    message = r"(?s)no text for multi30k at hand.*multi30k/test_2016_flickr\.en, .*HEADPRUNE_DATA"
    with pytest.raises(MissingData, match=message):
        MULTI30K.load()
    assert MULTI30K.checksums == MULTI30K.registered  # those of the committed results


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("val.en", b"one\n", r"val\.de and val\.en have 20 and 1 lines; expected a translation"),
        ("train.de", b"ba\n\nde\n", r"train\.de, line 2: an empty line"),
        ("train.de", "gr\u00fcn\n".encode("latin-1"), r"train\.de must be text in UTF-8"),
        ("val.de.gz", b"not compressed", r"val\.de\.gz must be text in UTF-8"),
    ],
)
def test_files_that_cannot_be_read_are_named(folder, name, content, message):
    (folder / "multi30k" / name.removesuffix(".gz")).unlink()
    (folder / "multi30k" / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        MULTI30K.load()


def test_a_result_on_it_depends_on_the_text_at_hand_and_a_registered_one_on_the_committed(folder):
    profile = load_profile("default", translation_model="pre-norm", translation_seed=2)
    curve = MEASUREMENTS["pruning_curve"]
    for registered, text in ((False, MULTI30K.checksums), (True, MULTI30K.registered)):
        of = (curve, "translation", profile, "multi30k", "random")
        signed = signature(*of, registered=registered)
        assert signed["data"] == signed["recipe"]["seed 2"]["data"] == text
