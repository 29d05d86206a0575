"""newstest from a folder of one's own."""

import pytest

from headprune_lib.replication.data.verses import TRANSLATION_TASKS

WMT14 = TRANSLATION_TASKS["wmt14-enfr"]
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
