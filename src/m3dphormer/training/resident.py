"""Resident memory of this process, as the kernel counts it."""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path


def reset_peak() -> int:
    """Make the kernel forget the peak of resident memory; gives what is resident now.

    What was freed goes back to the system first: else a step would find it resident already.
    """
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return peak_resident()


def peak_resident() -> int:
    """Bytes at the highest point since the last reset; without /proc, since the process began."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS counts bytes
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
