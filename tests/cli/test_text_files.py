"""Files of one's own are read, or an error names the file, the row and the remedy."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headprune_lib.cli.text_files import Rows, read_rows


def written(path, text):
    path.write_text(text)
    return path


def test_tsv_and_jsonl_hold_the_same(tmp_path):
    tsv = written(tmp_path / "a.tsv", 'text\ttext2\tlabel\na "b\tc\tno\nd\te f\tyes\n')
    rows = [
        {"text": 'a "b', "text2": "c", "label": "no"},
        {"text": "d", "text2": "e f", "label": "yes"},
    ]
    jsonl = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    expected = Rows(['a "b', "d"], ["c", "e f"], ["no", "yes"])
    assert read_rows(tsv) == read_rows(jsonl) == expected
    pairs = written(tmp_path / "b.tsv", "source\ttarget\na\tb\n")
    assert read_rows(pairs) == Rows(["a"], targets=["b"])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "text,label", "neither .tsv nor .jsonl"),
        ("a.tsv", "", "a.tsv is empty: its first line is to name the columns"),
        ("a.tsv", "text\tlabel\na\t1\nb\t1\t2\n", "row 2: 3 cells, but 2 columns"),
        (
            "a.tsv",
            "sentence\tlabel\na\t1\n",
            r"columns \['label', 'sentence'\], expected text and label",
        ),
        ("a.tsv", "text\tlabel\n", "holds no row"),
        ("a.tsv", "text\tlabel\na\t1\n\t0\n", r"row 2: \['text'\] is missing or empty"),
        (
            "a.tsv",
            "source\ttarget\nhello\tbonjour\t0.9\n",
            "row 1: 3 cells, but 2 columns; is there a tab",
        ),
        ("a.tsv", "text\ttext\na\tb\n", "names a column twice"),
        ("a.tsv", "text\n" + "a" * 200_000, "field larger than field limit"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', r"row 2: \['label'\] is missing"),
        ("a.jsonl", '{"text": "a"}\n{"text": \n', r"a.jsonl, row 2: not JSON"),
        ("a.jsonl", '{"text": "a"}\n["b"]\n', r"row 2: expected an object such as"),
        ("a.jsonl", '{"text": 5}\n', "row 1: text is 5, expected text"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        read_rows(written(tmp_path / name, text))
    with pytest.raises(FileNotFoundError, match="no file"):
        read_rows(tmp_path / "other.tsv")


def test_a_mark_at_the_start_and_blank_lines_are_passed_over(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbftext\r\nbad film\r\n\r\n")
    assert read_rows(path) == Rows(["bad film"])
    path = written(tmp_path / "a.jsonl", '{"text": "bad film"}\n\n')
    assert read_rows(path) == Rows(["bad film"])


def test_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes("text\nté\n".encode("latin-1"))
    with pytest.raises(ValueError, match="a.tsv is not UTF-8"):
        read_rows(path)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), min_size=1))
def test_any_text_is_read_back(texts):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        assert read_rows(path).texts == texts
        path = Path(folder) / "a.tsv"
        path.write_text("text\tlabel\n" + "".join(f"{text}\t1\n" for text in texts), "utf-8")
        assert read_rows(path).texts == texts
