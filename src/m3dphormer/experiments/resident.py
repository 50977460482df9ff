"""Resident memory of this process, as the kernel counts it."""

from __future__ import annotations

import ctypes
from pathlib import Path


def reset_peak() -> int:
    """Make the kernel forget the peak of resident memory; gives what is resident now.

    What was freed goes back to the system first: else a step would find it resident already.
    """
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return peak_resident()


def peak_resident() -> int:
    """Bytes at the highest point since the last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM in /proc/self/status")
