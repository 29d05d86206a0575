"""Files of one's own are read, or an error names the file, the row and the remedy."""

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
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


def test_a_mark_at_the_start_and_blank_lines_are_passed_over(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbftext\r\nbad film\r\n\r\n")
    assert read_rows(path) == Rows(["bad film"])
    path = written(tmp_path / "a.jsonl", '{"text": "bad film"}\n\n')
    assert read_rows(path) == Rows(["bad film"])


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), min_size=1))
def test_any_text_is_read_back(texts):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        assert read_rows(path).texts == texts
        path = Path(folder) / "a.tsv"
        path.write_text("text\tlabel\n" + "".join(f"{text}\t1\n" for text in texts), "utf-8")
        assert read_rows(path).texts == texts
