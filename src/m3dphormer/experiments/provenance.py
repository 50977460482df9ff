"""Where a measured number came from: code, machine, libraries."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch


def provenance() -> dict[str, str]:
    """Columns for a csv in ``results/``."""
    return {
        "commit": _commit(),
        "machine": f"{_processor()}, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def _commit() -> str:
    """The commit of the checkout the package is in, marked where its code is changed.

    Without a checkout, the package's version.
    """
    code = Path(__file__).parents[1]
    try:
        head = _git("rev-parse", "--short", "HEAD", folder=code)
        changed = _git("status", "--porcelain", "--", ".", folder=code)
    except (OSError, subprocess.CalledProcessError):
        return version("m3dphormer")
    return f"{head}-dirty" if changed else head


def _git(*words: str, folder: Path) -> str:
    told = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return told.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
