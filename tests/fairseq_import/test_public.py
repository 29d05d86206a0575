"""The paper's translator as it is published: a tar with dictionaries and codes, fetched over faults."""

import io
import tarfile

import hub
import pytest
from fairseqmodels import train_shape

from headprune_lib.replication.data import Archive, MissingData, WrongChecksum, fetch, noted
from headprune_lib.replication.models.fairseq import WMT14, public_translator

pytestmark = pytest.mark.slow  # half a second each to stop the server

NAME = "wmt14.en-fr.joined-dict.transformer.tar.bz2"


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))
    (tmp_path / "served" / "models" / "fair" / "wmt14").mkdir(parents=True)
    with hub.serving(tmp_path / "served") as found:
        yield found


def pack(server, files) -> Archive:
    """An archive of the files, packed as the public one is, on the server."""
    path = server.folder / "models" / "fair" / "wmt14" / NAME
    with tarfile.open(path, "w:bz2") as opened:
        for name, content in files.items():
            member = tarfile.TarInfo(f"wmt14.en-fr.joined-dict.transformer/{name}")
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return Archive("wmt14-enfr", f"{server.address}/fair/wmt14/resolve/main/{NAME}", WMT14.files)


@pytest.fixture
def plain(server):
    return pack(server, {name: name.encode() * 500 for name in WMT14.files})


def test_a_download_that_breaks_off_goes_on(server, plain, monkeypatch):
    monkeypatch.setattr(fetch, "CHUNK", 16)  # the archive is small; what is written is kept
    server.faults[NAME] = ["cut", "cut"]
    for _ in range(2):
        with pytest.raises(MissingData, match="goes on where it broke off"):
            plain.folder()
    folder = plain.folder()
    started = [int(asked[6:-1]) for asked in server.ranges[1:]]
    assert 0 < started[0] < started[1], "each goes on behind what came before"
    assert {path.name for path in folder.iterdir()} == {*WMT14.files}
    assert (folder / "bpecodes").read_bytes() == b"bpecodes" * 500
    asked = len(server.asked)
    assert plain.folder() == folder and len(server.asked) == asked


@pytest.mark.parametrize(
    "first",
    [
        lambda whole: b"<html>log in first</html>",
        lambda whole: whole[:200] + bytes(50) + whole[250:],
    ],
    ids=["a page", "other bytes within"],
)
def test_a_first_download_that_is_no_archive_is_set_aside_and_not_noted(server, plain, first):
    served = server.folder / "models" / "fair" / "wmt14" / NAME
    whole = served.read_bytes()
    served.write_bytes(first(whole))
    with pytest.raises(WrongChecksum, match=r"is no whole archive.*set aside as .*damaged-1"):
        plain.folder()
    assert noted(plain.url) is None and not plain.here
    served.write_bytes(whole)
    assert plain.folder().is_dir() and noted(plain.url)


def test_an_archive_of_something_else_is_set_aside(server):
    archive = pack(server, {"model.pt": b"x"})
    with pytest.raises(WrongChecksum, match=r"holds no dict.en.txt, .*bpecodes.*set aside as"):
        archive.folder()
    assert noted(archive.url) is None


@pytest.mark.nightly
def test_a_vaswani_model_with_joined_dictionary_is_read_from_its_archive(
    server, prepared, text, tmp_path_factory
):
    from subword_nmt.learn_bpe import learn_bpe

    data, checkpoint = train_shape("joined", prepared, tmp_path_factory)
    codes = io.StringIO()
    learn_bpe(io.StringIO((text / "train.xx").read_text()), codes, 40, min_frequency=1)
    archive = pack(
        server,
        {
            "model.pt": checkpoint.read_bytes(),
            "dict.en.txt": (data / "dict.xx.txt").read_bytes(),
            "dict.fr.txt": (data / "dict.yy.txt").read_bytes(),
            "bpecodes": codes.getvalue().encode(),
        },
    )
    translator = public_translator(archive)
    assert translator.model.config.share_encoder_decoder_embeddings
    assert len(translator.source) == len(translator.target)
    lines = (text / "test.xx").read_text().splitlines()
    assert translator.splitter.codes is not None
    assert [translator.splitter.split(line) for line in lines] == [line.split() for line in lines]
    assert all(translator.translate(lines[:4]))
