"""What a training step frees stays with the process for the next one.

glibc gives the top of its heap back to the system as soon as a few large tensors are freed, and
the next step pays for every page anew: a tenth of an epoch on a graph of the size of PubMed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM, _MAP = -1, -3  # malloc.h: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
LARGEST = 32 << 20  # bytes from which a block is mapped on its own; glibc allows no more
USUAL = 2 * LARGEST  # where glibc's own rule for the top ends up
KEPT = (1 << 31) - 1


@contextmanager
def kept_heap() -> Iterator[None]:
    """Inside, freed memory is kept; afterwards it is given back. Without glibc nothing changes."""
    try:
        glibc = ctypes.CDLL(None)
        mallopt, trim = glibc.mallopt, glibc.malloc_trim
    except (OSError, AttributeError, TypeError):
        yield
        return
    mallopt(_MAP, LARGEST)
    mallopt(_TRIM, KEPT)
    try:
        yield
    finally:
        mallopt(_TRIM, USUAL)
        trim(ctypes.c_size_t(0))
