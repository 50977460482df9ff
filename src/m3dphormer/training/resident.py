"""Resident memory of this process, as the kernel counts it, and what is said when it ends."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from m3dphormer.errors import UserError

NO_ROOM = "can't allocate memory"  # torch says it in a plain RuntimeError on a CPU


@contextmanager
def telling_of_no_room(what: str) -> Iterator[None]:
    """Say in one line that the memory is used up; what forecasts did not see coming."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        no_room = isinstance(error, MemoryError | torch.OutOfMemoryError) or NO_ROOM in str(error)
        if not no_room:
            raise
        raise UserError(
            f"{what} does not fit into memory. Take a smaller --set hidden, fewer layers or a "
            "larger machine."
        ) from None


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
