"""The C++ kernels of ``csrc/``, called through their C interface.

The library knows nothing of torch: it takes addresses and sizes. One build serves every torch.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch
from torch import Tensor

from m3dphormer.attention.dropout import Dropout, hash_step
from m3dphormer.errors import UserError, notice

INSTRUCTION_SETS = ("auto", "baseline", "avx2", "avx512")
KERNELS = ("dot_forward", "dot_backward", "additive_forward", "additive_backward")
_SIZES = ("rows", "entries", "heads", "width_k", "width_v")
_TENSORS = (
    *("indptr", "indices", "t_indptr", "t_indices", "order"),
    *("q", "k", "v", "a", "b", "out", "lse"),
    *("grad_out", "delta", "grad_q", "grad_k", "grad_v", "grad_a", "grad_b"),
)


class _Problem(ctypes.Structure):
    """``struct Problem`` of csrc/problem.h, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES),
        *((name, ctypes.c_void_p) for name in _TENSORS),
        *((name, ctypes.c_double) for name in ("scale", "slope", "keep_scale")),
        *((name, ctypes.c_uint32) for name in ("dropout", "step", "threshold")),
        *((name, ctypes.c_int32) for name in ("threads", "isa", "float64")),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, or None (told once) where they were not built or cannot be loaded."""
    for suffix in EXTENSION_SUFFIXES:
        path = Path(__file__).with_name("_kernels" + suffix)
        if path.exists():
            loaded = _load(path)
            if loaded is not None:
                return loaded
    notice(
        "The fused attention kernels are not built; slower torch code gives the same numbers. "
        "Install a C++ compiler and reinstall m3dphormer to get them."
    )
    return None


def _load(path: Path) -> ctypes.CDLL | None:
    try:
        loaded = ctypes.CDLL(str(path))  # its OpenMP is the one that torch has loaded
    except OSError:
        try:
            ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
            loaded = ctypes.CDLL(str(path))
        except OSError:
            return None
    loaded.m3d_problem_size.restype = ctypes.c_int64
    return loaded if loaded.m3d_problem_size() == ctypes.sizeof(_Problem) else None


@cache
def instruction_set() -> int:
    """Which kernels serve: the best this machine has, or what M3DPHORMER_ISA names."""
    name = os.environ.get("M3DPHORMER_ISA", "auto")
    if name not in INSTRUCTION_SETS:
        known = ", ".join(INSTRUCTION_SETS)
        raise UserError(f"M3DPHORMER_ISA must be one of {known}. Got {name!r}.")
    return INSTRUCTION_SETS.index(name)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def ready() -> bool:
    """Whether the kernels serve."""
    return library() is not None


def available(name: str) -> bool:
    """Whether this machine can run an instruction set's kernels."""
    loaded = library()
    return loaded is not None and INSTRUCTION_SETS.index(name) <= loaded.m3d_best_isa()


def run(
    kernel: str,
    sizes: tuple[int, int, int, int, int],
    dtype: torch.dtype,
    dropout: Dropout | None,
    tensors: dict[str, Tensor],
    *,
    scale: float = 0.0,
    slope: float = 0.0,
) -> None:
    """Run a kernel on contiguous CPU tensors of the right shapes; it fills its outputs.

    Args:
        kernel: One of ``KERNELS``.
        sizes: T, m, H, d_h of q and k, d_h of v.
        tensors: The fields of ``struct Problem`` that the kernel names.
    """
    loaded = library()
    assert loaded is not None
    problem = _Problem(*sizes)
    for name, tensor in tensors.items():
        setattr(problem, name, tensor.data_ptr())
    problem.scale, problem.slope = scale, slope
    if dropout is not None:
        problem.dropout, problem.keep_scale = 1, 1.0 / (1.0 - dropout.p)
        problem.step = hash_step(dropout.seed, dropout.call)
        problem.threshold = dropout.threshold
    problem.threads, problem.isa = torch.get_num_threads(), instruction_set()
    problem.float64 = dtype == torch.float64
    failed = getattr(loaded, "m3d_" + kernel)(ctypes.byref(problem))
    if failed == 1:
        raise UserError(
            f"The mask's CSR names a row or key outside [0, {sizes[0]}), or its indptr is not "
            f"increasing from 0 to {sizes[1]}."
        )
    if failed:
        raise MemoryError("The fused attention kernels could not get their scratch memory.")
