"""IWSLT14's archive becomes text as fairseq's recipe prepares it."""

import pytest
import translated

from headprune_lib.replication.data import TRANSLATION_TASKS, iwslt

TASK = TRANSLATION_TASKS[iwslt.NAME]


def write(folder, train, talks):
    """Training lines and, the same in each talk, segments."""
    folder.mkdir(parents=True)
    files = translated.talk_files(train, dict.fromkeys(translated.TALKS, talks))
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path))
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / iwslt.NAME


@pytest.mark.slow
def test_markup_goes_and_pairs_that_do_not_fit_are_left_out(own):
    good = [(f"Das ist Satz {i}.", f"This is sentence {i}.") for i in range(45)]
    write(
        own,
        [
            ("<url>http://a.b/c</url>", "<url>http://a.b/c</url>"),
            ("<talkid>1</talkid>", "<talkid>1</talkid>"),
            ("<title>Ein Titel</title>", "<title>A title</title>"),
            ("Eins zwei drei vier fünf sechs.", "One."),  # 7 tokens and 2
            ("", "Only one side."),
            ("Wort " * 176, "word " * 176),
            *good,
        ],
        [("Dr. Müller ging’ weg.", "Dr. Müller’s gone."), ("<b>", "x")],
    )
    splits = TASK.load()
    assert len(splits["valid"]) == 2 and len(splits["train"]) == 44
    assert splits["train"].sources[0] == "Ein Titel" and splits["valid"].sources[0] == good[21][0]
    assert set(splits["score"].sources) == set(splits["train"].sources)
    assert len(splits["test"]) == 10 and "Dr. Müller ging' weg." in splits["test"].sources
    tokens = (iwslt.prepared() / "test.tokens.de").read_text().splitlines()
    assert tokens[0] == "dr. müller ging &apos; weg ."
    assert set(TASK.checksums()) == {f"{iwslt.NAME}/{name}" for name in splits}


def test_prepared_text_is_made_once_and_nothing_half_done_is_left(own, monkeypatch):
    write(own, translated.pairs(30, 1), translated.pairs(2, 2))
    more = own / "train.tags.de-en.en"
    english = more.read_text()
    more.write_text(f"{english}One more.\n")
    with pytest.raises(ValueError, match="31 German and 32 English lines"):
        TASK.load()
    assert not [*(own.parent / "cache" / "text").iterdir()]
    more.write_text(english)
    folder = iwslt.prepared()
    monkeypatch.setattr(iwslt, "_prepare", None)
    assert iwslt.prepared() == folder and (folder / "train.tokens.en").is_file()
