"""The user's cache folder: raw downloads and partitions. Never the folder the data lies in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def cache_dir(*parts: str) -> Path:
    """``$M3DPHORMER_CACHE``, else ``$XDG_CACHE_HOME/m3dphormer``, else ``~/.cache/m3dphormer``."""
    own = os.environ.get("M3DPHORMER_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(own) if own else Path(base) / "m3dphormer").joinpath(*parts)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary neighbour, then move it into place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
