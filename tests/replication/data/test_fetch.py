"""What is needed of an archive is unpacked, wherever it lies within, and nothing else."""

import io
import tarfile

from headprune_lib.replication.data import Archive


def test_nothing_is_written_outside_of_the_folder(tmp_path, elsewhere):
    archive = Archive("model", "https://example.org/model.tar.gz", ("dict.txt", "codes"))
    (tmp_path / "cache" / "archives").mkdir(parents=True)
    with tarfile.open(tmp_path / "cache" / "archives" / "model.tar.gz", "w:gz") as made:
        for name in ("model/dict.txt", "../../codes", "../../out.txt", f"{tmp_path}/out.txt"):
            member = tarfile.TarInfo(name)
            member.size = 2
            made.addfile(member, io.BytesIO(b"ab"))
    folder = archive.folder()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "dict.txt": b"ab",
        "codes": b"ab",
    }
    assert not [*tmp_path.rglob("*out.txt")] and len([*tmp_path.rglob("codes")]) == 1
