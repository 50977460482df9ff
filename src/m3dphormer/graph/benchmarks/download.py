"""Bytes from the public home into the cache: all of a file or none of it."""

from __future__ import annotations

import shutil
import sys
import urllib.request
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO
from zipfile import ZipFile

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from m3dphormer.graph.cache import write_atomically

TIMEOUT = 10.0  # seconds to connect, and between two pieces
PIECE = 1 << 16


def download(url: str, path: Path) -> None:
    """Fetch ``url`` into ``path``, with a progress bar on stderr where that is a terminal.

    Raises:
        OSError: The host cannot be reached, refuses, sends a web page, or stops half-way.
    """
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        if response.headers.get_content_type() == "text/html":
            raise OSError("a web page came instead of the file")
        size = int(response.headers.get("Content-Length") or 0)
        write_atomically(path, lambda temporary: _receive(response, temporary, path.name, size))


def unpack(archive: Path, members: Mapping[str, Path]) -> None:
    """Write the named members of a zip file, each to its own path."""
    with ZipFile(archive) as opened:
        for member, path in members.items():
            write_atomically(path, partial(_extract, opened, member))


def _receive(response: IO[bytes], path: Path, label: str, size: int) -> None:
    """Copy the response to ``path``; ``size`` 0 means unknown."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(label, total=size or None)
        received = 0
        with path.open("wb") as file:
            while piece := response.read(PIECE):
                file.write(piece)
                received += len(piece)
                progress.update(task, completed=received)
    if size and received != size:
        raise OSError(f"the connection closed after {received} of {size} bytes")


def _extract(archive: ZipFile, member: str, path: Path) -> None:
    with archive.open(member) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)
