"""Archives are unpacked within their folder, by every Python that the library runs on."""

import io
import tarfile

import pytest

from headprune_lib.replication.data import archives


@pytest.mark.parametrize("filters", [True, False], ids=["3.11.4 and later", "before"])
def test_nothing_is_written_outside_of_the_folder(filters, tmp_path, monkeypatch):
    path, folder = tmp_path / "x.tar.gz", tmp_path / "in" / "it"
    folder.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as made:
        for name in ("model/dict.txt", "../out.txt" if not filters else "model/b.txt"):
            member = tarfile.TarInfo(name)
            member.size = 2
            made.addfile(member, io.BytesIO(b"ab"))
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    elif not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no filters")
    archives._extract(path, str(folder))
    assert (folder / "model" / "dict.txt").read_bytes() == b"ab"
    assert not (tmp_path / "in" / "out.txt").exists()
