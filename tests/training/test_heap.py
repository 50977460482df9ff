"""The heap of a training keeps what a step frees."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

STEPS = """
import resource, sys
from contextlib import nullcontext
import torch
from m3dphormer.training.heap import kept_heap

def step():
    tensors = [torch.ones(1 << 21) for _ in range(16)]  # 8 MB each
    del tensors

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

with kept_heap() if sys.argv[1] == "kept" else nullcontext():
    for _ in range(3):
        step()
    before = faults()
    for _ in range(5):
        step()
    print(faults() - before)
before = faults()
step()
print(faults() - before)
"""


def faults(which: str) -> tuple[int, int]:
    """Pages asked for in five steps, and in one afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS, which], capture_output=True, text=True, check=True
    )
    inside, after = map(int, done.stdout.split())
    return inside, after


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc here")
def test_steps_inside_ask_for_no_new_pages_and_the_memory_is_given_back() -> None:
    pages = 16 * 2048  # of a step
    inside, after = faults("kept")
    assert inside < pages / 10
    assert after > pages / 2
    assert faults("not")[0] > pages
