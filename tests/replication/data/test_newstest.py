"""newstest and MTNT: from a folder of one's own, and by sacrebleu over faults of a server."""

import hashlib
import io
import json
import tarfile

import hub
import pytest
from sacrebleu.dataset import DATASETS

from headprune_lib.replication.data import MissingData, WrongChecksum, newstest
from headprune_lib.replication.data.verses import TRANSLATION_TASKS

WMT14, MTNT = TRANSLATION_TASKS["wmt14-enfr"], TRANSLATION_TASKS["mtnt-enfr"]
LINES = {
    "en": ["A cat.", "  Two   cats. ", "", "Four."],
    "fr": ["Un.", "Deux.", "Trois.", "Quatre."],
}


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path))
    (tmp_path / "newstest").mkdir()
    for year in range(2009, 2015):
        for side, lines in LINES.items():
            text = "".join(f"{line}{year if line else ''}\n" for line in lines)
            (tmp_path / "newstest" / f"newstest{year}.{side}").write_text(text)
    return tmp_path


def test_sets_become_splits_and_gaps_are_left_out(own):
    splits = WMT14.load()
    assert [len(splits[name]) for name in ("score", "test", "valid")] == [12, 3, 3]
    assert {place[0] for place in splits["score"].places} == {2009, 2010, 2011, 2012}
    rows = dict(zip(splits["test"].sources, splits["test"].targets, strict=True))
    assert rows["Two cats. 2013"] == "Deux.2013" and "Trois.2013" not in rows.values()
    assert WMT14.chosen == ("test", "valid") and len(WMT14.checksums) == 6
    with pytest.raises(ValueError, match="wmt14-enfr has no split train, only score, test, valid"):
        WMT14.split("train")


def test_a_folder_that_lacks_a_file_is_told(own):
    (own / "newstest" / "newstest2013.fr").unlink()
    with pytest.raises(MissingData, match="newstest2013.fr; put it there, or leave newstest out"):
        WMT14.load()
    (own / "newstest" / "newstest2013.fr").write_text("Un.\n")
    with pytest.raises(ValueError, match="4 and 1 lines"):
        WMT14.load()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """MTNT's archive on the loopback, where sacrebleu looks for it."""
    for name, folder in (("HEADPRUNE_CACHE", "cache"), ("HEADPRUNE_RESULTS", "results")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.delenv("HEADPRUNE_DATA", raising=False)
    served = tmp_path / "served" / "models" / "mtnt" / "v1"
    served.mkdir(parents=True)
    rows = "".join(f"{i}\t{s}\t{t}\n" for i, (s, t) in enumerate(zip(*LINES.values(), strict=True)))
    with tarfile.open(served / "MTNT.1.1.tar.gz", "w:gz") as opened:
        member = tarfile.TarInfo("MTNT/test/test.en-fr.tsv")
        member.size = len(rows.encode())
        opened.addfile(member, io.BytesIO(rows.encode()))
    known, place = DATASETS["mtnt1.1/test"], tmp_path / "sacrebleu"
    with hub.serving(tmp_path / "served") as found:
        url = f"{found.address}/mtnt/v1/resolve/main/MTNT.1.1.tar.gz"
        monkeypatch.setattr(known, "data", [url])
        md5 = hashlib.md5((served / "MTNT.1.1.tar.gz").read_bytes()).hexdigest()
        monkeypatch.setattr(known, "md5", [md5])
        monkeypatch.setattr(known, "_outdir", str(place / "mtnt1.1/test"))
        monkeypatch.setattr(known, "_rawdir", str(place / "mtnt1.1/test" / "raw"))
        monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(place))
        yield found


def test_sacrebleu_fetches_once_whatever_fails_and_what_came_is_noted(server, tmp_path):
    for fault in ("cut", 404, 500):
        server.faults["MTNT.1.1.tar.gz"] = [fault]
        with pytest.raises(MissingData, match="cannot be had .*; the same command tries again"):
            MTNT.load()
    server.faults["MTNT.1.1.tar.gz"] = ["wrong"]
    with pytest.raises(WrongChecksum, match="another file than MD5 .* set aside as .*damaged-1"):
        MTNT.load()
    assert len(MTNT.load()["test"]) == 3 and MTNT.far == "test"
    asked = len(server.asked)
    noted = json.loads((tmp_path / "results" / "fetched.json").read_text())
    assert noted == {"sacrebleu/mtnt1.1/test/en-fr": MTNT.checksums["mtnt/test"]}
    assert len(server.asked) == asked and not newstest.public_files()
