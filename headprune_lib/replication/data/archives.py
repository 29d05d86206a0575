"""Archives on the network: fetched once, whatever breaks off on the way, checked, and unpacked."""

from __future__ import annotations

import lzma
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headprune_lib.replication.data.fetched import check_fetched, noted
from headprune_lib.replication.data.sources import MissingData, WrongChecksum, file_sha256
from headprune_lib.replication.paths import cache_root
from headprune_lib.replication.store.files import set_aside

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Archive:
    """A tar file on the network.

    Attributes:
        sha256: as registered; where it is not known, that of the first download is noted.
        files: names of what is needed of it, wherever it lies within.
    """

    name: str
    url: str
    files: tuple[str, ...]
    sha256: str = ""

    def folder(self) -> Path:
        """The folder that holds ``files``; fetched and unpacked the first time.

        Raises:
            MissingData: it cannot be fetched; what came so far is kept, and the next call goes on.
            WrongChecksum: it is another file than the registered or noted one, or no archive that
                holds ``files``; it is set aside, and nothing is noted of it.
        """
        if not self.here:
            path = self._fetched()
            try:
                self._unpack(path)
            except WrongChecksum as error:
                (aside,) = set_aside(path)
                raise WrongChecksum(f"{error}. The file was set aside as {aside}") from None
        return self.target

    @property
    def target(self) -> Path:
        """The folder that :meth:`folder` gives, whether it is there or not."""
        return cache_root() / "archives" / self.name

    @property
    def here(self) -> bool:
        """Whether it was fetched and unpacked before."""
        return all((self.target / name).is_file() for name in self.files)

    @property
    def home(self) -> str:
        """Where it is fetched from: ``url``, or the same file in ``$HEADPRUNE_MIRROR``."""
        mirror = os.environ.get("HEADPRUNE_MIRROR")
        return f"{mirror.rstrip('/')}/{self.url.rpartition('/')[2]}" if mirror else self.url

    def _fetched(self) -> Path:
        import pooch

        folder, name = cache_root() / "archives", self.url.rpartition("/")[2]
        # without a hash: it is checked below, where a wrong file is not thrown away; pooch.retrieve
        # would take the hash of these gigabytes for a line of its log
        home = pooch.create(folder, base_url="", registry={name: None}, urls={name: self.home})
        try:
            path = Path(home.fetch(name, downloader=_going_on(folder / f"{self.name}.part")))
        except OSError as error:  # requests' errors are among them
            raise MissingData(
                f"{self.home} cannot be fetched ({type(error).__name__}: {error}); the same command "
                "goes on where it broke off"
            ) from error
        return path

    def _unpack(self, path: Path) -> None:
        found = file_sha256(path)
        if self.sha256 and found != self.sha256:
            raise WrongChecksum(f"{self.url} has SHA-256 {found}, expected {self.sha256}")
        if noted(self.url):
            check_fetched({self.url: found})
        with tempfile.TemporaryDirectory(dir=self.target.parent) as work:
            _extract(path, work)
            members = {name: [*Path(work).rglob(name)] for name in self.files}
            if missing := [name for name, there in members.items() if not there]:
                raise WrongChecksum(f"{self.url} holds no {', '.join(missing)}: not {self.name}")
            # only now: a page of an error that came first must not be what others are compared with
            check_fetched({self.url: found})
            self.target.mkdir(parents=True, exist_ok=True)
            for name, (there, *_) in members.items():
                os.replace(there, self.target / name)


def _extract(path: Path, folder: str) -> None:
    try:
        with tarfile.open(path) as opened:
            if hasattr(tarfile, "data_filter"):
                opened.extractall(folder, filter="data")  # nothing outside of the folder
            else:  # Python before 3.11.4: files alone, by names that stay within the folder
                opened.extractall(folder, [one for one in opened if _stays(one)])
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a full disk, say
            raise
        why = str(error).partition("\n")[0].rstrip(":")
        raise WrongChecksum(f"{path} is no whole archive ({why})") from None


def _stays(member: tarfile.TarInfo) -> bool:
    path = PurePosixPath(member.name)
    return member.isreg() and not path.is_absolute() and ".." not in path.parts


def _going_on(part: Path) -> Callable[[str, str, object], None]:
    """A downloader for pooch that goes on where an earlier one broke off."""

    def download(url: str, output: str, _pooch: object) -> None:
        import requests

        have = part.stat().st_size if part.exists() else 0
        asked = {"Range": f"bytes={have}-"} if have else {}
        with requests.get(url, headers=asked, stream=True, timeout=60) as answer:
            if (
                have and answer.status_code == 416
            ):  # there is no more: killed before it got its name
                if answer.headers.get("Content-Range") != f"bytes */{have}":
                    part.unlink()
                    return download(url, output, _pooch)
                os.replace(part, output)
                return None
            answer.raise_for_status()
            with part.open("ab" if answer.status_code == 206 else "wb") as file:
                for chunk in answer.iter_content(_CHUNK):
                    file.write(chunk)
        os.replace(part, output)
        return None

    return download
