"""A headless Chromium, driven through its debugging pipe, and folders served to it."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlparse

import pytest

from headprune_lib.replication.paths import project_root

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--remote-debugging-pipe"),
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
SETTLED = """new Promise(done => Promise.resolve(window.MathJax?.startup?.promise)
    .then(() => setTimeout(() => done(document.documentElement.outerHTML), 200)))"""


def settled(script: str) -> str:
    """A script for the value of an expression once the page has come to rest."""
    return f"new Promise(done => setTimeout(() => done(String({script})), 400))"


def contents() -> list[str]:
    """The pages that the table of contents names, by their paths in the site."""
    found = re.findall(r"(?:root|file): (\S+)", (project_root() / "_toc.yml").read_text("utf-8"))
    return [f"{page}.html" for page in found]


@dataclass
class Visit:
    """The outcome of opening a page: its markup once its scripts have run, and all that went wrong.

    ``loaded`` has the paths of everything that it loaded.
    """

    markup: str = ""
    problems: list[str] = field(default_factory=list)
    loaded: set[str] = field(default_factory=set)


class Browser:
    """A Chromium process with one page, for as long as the ``with`` block runs."""

    def __init__(self, profile: Path):
        self.profile = profile

    def __enter__(self) -> Self:
        # Chromium reads commands from descriptor 3 and answers on 4, each message ended by NUL.
        commands, self.write_to = os.pipe()
        self.read_from, answers = os.pipe()
        # Moved out of the way of descriptors 3 and 4.
        moved = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers)]
        connect = 'exec "$0" "$@" 3<&{} 4>&{}'.format(*moved)
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"]
        silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        self.process = subprocess.Popen(["bash", "-c", connect, *command], pass_fds=moved, **silent)
        for end in (commands, answers, *moved):
            os.close(end)
        self.n_sent, self.events, self.buffer, self.session = 0, [], b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.write_to)  # Chromium leaves when the pipe closes
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read_from)

    def receive(self) -> dict:
        """The next message from Chromium."""
        while b"\0" not in self.buffer:
            chunk = os.read(self.read_from, 1 << 16)
            if not chunk:
                raise RuntimeError(f"{CHROMIUM} has closed its debugging pipe")
            self.buffer += chunk
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, **params: object) -> dict:
        """Send a command and return its answer; events that arrive before it are kept."""
        self.n_sent += 1
        command = {"id": self.n_sent, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.write_to, json.dumps(command).encode() + b"\0")
        while (message := self.receive()).get("id") != self.n_sent:
            self.events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return message["result"]

    def visit(self, address: str, width: int = 1200, script: str = SETTLED) -> Visit:
        """Open a page, wait until it has settled, and report what went wrong.

        Args:
            address: the page.
            width: width of the window, in pixels.
            script: what to evaluate then; its value becomes the visit's ``markup``.
        """
        self.events.clear()
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        # this page's own load: a redirect of the page before may still be under way
        loaded = {"name": "load", "loaderId": self.call("Page.navigate", url=address)["loaderId"]}
        while not any(
            event.get("method") == "Page.lifecycleEvent"
            and loaded.items() <= event["params"].items()
            for event in self.events
        ):
            self.events.append(self.receive())
        value = self.value(script)
        found = map(problem, self.events)
        loaded = {
            urlparse(event["params"]["response"]["url"]).path
            for event in self.events
            if event.get("method") == "Network.responseReceived"
        }
        return Visit(value or "", list(filter(None, found)), loaded)

    def value(self, script: str) -> Any:
        """The value of an expression on the page that is open."""
        result = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        return result["result"].get("value")

    @contextmanager
    def in_mode(self, mode: str) -> Iterator[None]:
        """Show pages that are opened in the block as ``light`` or ``dark``."""

        def prefer(scheme: str) -> None:
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            self.call("Emulation.setEmulatedMedia", features=features)

        prefer(mode)
        try:
            yield
        finally:
            prefer("light")


def problem(event: dict) -> str | None:
    """The problem on the page that an event of the browser reports, or None."""
    match event:
        case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
            return "exception: " + details.get("exception", {}).get("description", details["text"])
        case {"method": "Runtime.consoleAPICalled", "params": {"type": "error", "args": words}}:
            return "console: " + " ".join(str(word.get("value", "")) for word in words)
        case {"method": "Log.entryAdded", "params": {"entry": {"level": "error", **entry}}}:
            return f"log: {entry['text']} {entry.get('url', '')}"
        case {"method": "Network.loadingFailed", "params": {"canceled": False, **params}}:
            return f"request: {params['errorText']}"
        case {"method": "Network.responseReceived", "params": {"response": response}}:
            if response["status"] >= 400:
                return f"request: {response['status']} {response['url']}"
    return None


class Quiet(SimpleHTTPRequestHandler):
    """A handler that serves without a log."""

    def log_message(self, *arguments) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, for as long as the block runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
