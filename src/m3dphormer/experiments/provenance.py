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
    """The commit of the checkout the package is in, else the package's version."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return version("m3dphormer")
    return told.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
