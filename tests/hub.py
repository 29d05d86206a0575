"""A local stand-in for the Hugging Face Hub, which serves a folder, with faults on demand.

The folder has ``models/OWNER/NAME/…`` and ``datasets/OWNER/NAME/…``.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = hashlib.sha1(b"the only revision").hexdigest()
_MISSING = {"X-Error-Code": "EntryNotFound"}


def _commit(revision: str) -> str:
    """The commit asked for, which has all content; for a branch, its only commit."""
    return revision if re.fullmatch("[0-9a-f]{40}", revision) else COMMIT


class Hub(ThreadingHTTPServer):
    """A hub; ``cuts`` is file name -> how many of its next downloads break off half-way.

    ``asked`` lists the requests, ``ranges`` their ranges of bytes.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.folder, self.cuts = folder, {}
        self.asked, self.ranges = [], []
        self.address = f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:  # …/paths-info/<revision>
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        repo, _, _ = self._api()
        paths = [repo / path for path in urllib.parse.parse_qs(sent)["paths"]]
        self._json([self._entry(repo, path) for path in paths if path.exists()])

    def do_GET(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.server.asked.append(f"{self.command} {path}")
        self.server.ranges.append(self.headers.get("Range"))
        if path.startswith("/api/"):
            self._tell()
        elif "/resolve/" in path:
            where, _, rest = path.strip("/").partition("/resolve/")
            kind = "" if where.startswith("datasets/") else "models/"
            revision, _, name = rest.partition("/")
            self._send(self.server.folder / (kind + where) / name, _commit(revision))
        else:
            self._status(404)

    def _api(self) -> tuple[Path, str, str]:
        """The repository's folder, what is asked of it, and the path within."""
        parts = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).split("/")[2:]
        within = "/".join(parts[5:])
        return self.server.folder.joinpath(*parts[:3]), "".join(parts[3:4]), within

    def _tell(self) -> None:
        repo, what, within = self._api()
        if not repo.is_dir():
            self._status(404, {"X-Error-Code": "RepoNotFound"})
        elif what in ("", "revision"):
            files = [file for file in sorted(repo.rglob("*")) if file.is_file()]
            name = "/".join(repo.parts[-2:])
            siblings = [{"rfilename": str(file.relative_to(repo))} for file in files]
            sha = _commit(within)
            self._json({"id": name, "sha": sha, "private": False, "siblings": siblings})
        elif what == "tree" and (repo / within).is_dir():
            deep = "recursive=true" in self.path.lower() or "recursive=1" in self.path
            found = sorted((repo / within).rglob("*") if deep else (repo / within).iterdir())
            self._json([self._entry(repo, file) for file in found])
        else:
            self._status(404, _MISSING)

    def _entry(self, repo: Path, file: Path) -> dict:
        name = str(file.relative_to(repo))
        if file.is_dir():
            return {"type": "directory", "path": name, "oid": COMMIT, "size": 0}
        content = file.read_bytes()
        oid = hashlib.sha1(content).hexdigest()
        return {"type": "file", "path": name, "oid": oid, "size": len(content)}

    def _send(self, file: Path, commit: str) -> None:
        if not file.is_file():
            self._status(404, _MISSING)
            return
        cut = self.command == "GET" and self.server.cuts.get(file.name, 0) > 0
        if cut:
            self.server.cuts[file.name] -= 1
        content = file.read_bytes()
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        start = int(self.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
        headers = {"ETag": etag, "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if "Range" in self.headers:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._status(206 if "Range" in self.headers else 200, headers, content[start:], cut)

    def _json(self, content: object) -> None:
        self._status(200, {"Content-Type": "application/json"}, json.dumps(content).encode())

    def _status(self, code: int, headers: dict | None = None, body=b"", cut=False) -> None:
        self.send_response(code)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True


@contextmanager
def serving(folder: Path) -> Iterator[Hub]:
    """Serve the contents of a folder as a hub."""
    hub = Hub(folder)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
