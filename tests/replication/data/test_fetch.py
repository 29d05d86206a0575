"""The paper's translator as it is published, a tar with dictionaries and codes, is fetched over faults."""

import io
import tarfile

import hub
import pytest
from translated import WMT, pack_wmt

from headprune_lib.replication.data import Archive, MissingData, WrongChecksum, fetch, noted
from headprune_lib.replication.models.fairseq import WMT14

slow = pytest.mark.slow  # half a second each to stop the server


@pytest.fixture
def server(elsewhere):
    with hub.serving(elsewhere / "served") as found:
        yield found


def pack(server, files) -> Archive:
    """An archive of the files, packed as the public one is, on the server."""
    pack_wmt(server.folder / "models" / "fair" / "wmt14" / WMT, files)
    return Archive("wmt14-enfr", f"{server.address}/fair/wmt14/resolve/main/{WMT}", WMT14.files)


@pytest.fixture
def plain(server):
    return pack(server, {name: name.encode() * 500 for name in WMT14.files})


@slow
def test_a_download_that_breaks_off_goes_on(server, plain, monkeypatch):
    monkeypatch.setattr(fetch, "CHUNK", 16)  # the archive is small; what is written is kept
    server.cuts[WMT] = 2
    for _ in range(2):
        with pytest.raises(MissingData, match="Run the same command again to resume"):
            plain.folder()
    folder = plain.folder()
    started = [int(asked[6:-1]) for asked in server.ranges[1:]]
    assert 0 < started[0] < started[1], "each goes on behind what came before"
    assert {path.name for path in folder.iterdir()} == {*WMT14.files}
    assert (folder / "bpecodes").read_bytes() == b"bpecodes" * 500
    asked = len(server.asked)
    assert plain.folder() == folder and len(server.asked) == asked


@slow
@pytest.mark.parametrize("damage", ["a page", "other bytes within", "something else"])
def test_a_first_download_that_is_not_the_archive_is_set_aside_and_not_noted(server, plain, damage):
    served = server.folder / "models" / "fair" / "wmt14" / WMT
    whole, message = served.read_bytes(), "is not a complete archive"
    if damage == "something else":
        message = "lacks dict.en.txt, .*bpecodes"
        pack(server, {"model.pt": b"x"})
    else:
        page = b"<html>log in first</html>"
        served.write_bytes(page if damage == "a page" else whole[:200] + bytes(50) + whole[250:])
    with pytest.raises(WrongChecksum, match=rf"{message}.*set aside as .*damaged-1"):
        plain.folder()
    assert noted(plain.url) is None and not plain.here
    served.write_bytes(whole)
    assert plain.folder().is_dir() and noted(plain.url)


def test_what_is_needed_is_unpacked_wherever_it_lies_and_nothing_outside_of_the_folder(
    tmp_path, elsewhere
):
    archive = Archive("model", "https://example.org/model.tar.gz", ("dict.txt", "codes"))
    (tmp_path / "cache" / "archives").mkdir(parents=True)
    with tarfile.open(tmp_path / "cache" / "archives" / "model.tar.gz", "w:gz") as made:
        for name in ("model/dict.txt", "../../codes", "../../out.txt", f"{tmp_path}/out.txt"):
            member = tarfile.TarInfo(name)
            member.size = 2
            made.addfile(member, io.BytesIO(b"ab"))
    folder = archive.folder()
    unpacked = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert unpacked == {"dict.txt": b"ab", "codes": b"ab"}
    assert not [*tmp_path.rglob("*out.txt")] and len([*tmp_path.rglob("codes")]) == 1
