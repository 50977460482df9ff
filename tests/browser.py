"""A real Chromium without a window, driven through a pair of pipes by its DevTools protocol."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0  # seconds


def find_chromium() -> str | None:
    """Where a Chromium is, if there is one."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One browser with one page.

    ``events`` has everything the browser told unasked: console messages, requests, errors.
    """

    def __init__(self, program: str, profile: Path) -> None:
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        # Chromium reads from 3 and writes to 4; first out of their way.
        inner = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers)]

        def wire() -> None:
            os.dup2(inner[0], 3)
            os.dup2(inner[1], 4)

        self._process = subprocess.Popen(
            [program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=wire,
        )
        for end in (commands, answers, *inner):
            os.close(end)
        self.events: list[dict[str, Any]] = []
        self._asked, self._rest, self._session = 0, b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        told = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = told["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, path: Path, width: int, *, dark: bool = False) -> None:
        """Show a file in a window of that width, and wait until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=path.absolute().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def screenshot(self) -> bytes:
        """The whole page as a png."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(told["data"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer."""
        self._asked += 1
        command = {"id": self._asked, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        while (message := self._receive()).get("id") != self._asked:
            self.events.append(message)
        assert "error" not in message, message
        return message["result"]

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(timeout=PATIENCE)
        os.close(self._write)
        os.close(self._read)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(end - time.monotonic(), 0))
            got = os.read(self._read, 1 << 20) if ready else b""
            if not got:
                raise TimeoutError("the browser does not answer")
            self._rest += got
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)
