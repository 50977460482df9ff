"""The C passes of ``csrc/structure.cpp``, called with contiguous tensors, numbers and lists."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from m3dphormer.attention import native
from m3dphormer.attention.dropout import Dropout, hash_step

_TYPES = {torch.float32: "f32", torch.float64: "f64"}
Argument = Tensor | list[int] | int | float | None


def serve(tensor: Tensor) -> bool:
    """Whether the passes can take tensors of this type and device."""
    return tensor.is_cpu and tensor.dtype in _TYPES and native.ready()


def run(name: str, dtype: torch.dtype, *arguments: Argument) -> None:
    """Run a pass; it writes to the tensors it is given, which must have the right shapes."""
    _pass(name, dtype)(*map(_c, arguments), ctypes.c_int64(torch.get_num_threads()))


def dropped(dropout: Dropout | None) -> tuple[int, int, int, float, Tensor | None]:
    """Dropout as a pass takes it."""
    if dropout is None:
        return 0, 0, 0, 1.0, None
    step = hash_step(dropout.seed, dropout.call)
    return 1, step, dropout.threshold, 1.0 / (1.0 - dropout.p), dropout.names


def addresses(tensors: Sequence[Tensor | None]) -> list[int]:
    """Where each begins; 0 for none."""
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


@cache
def _pass(name: str, dtype: torch.dtype) -> Any:
    loaded = native.library()
    assert loaded is not None
    best = int(loaded.m3d_best_isa())
    chosen = min(native.instruction_set() or best, best)
    function = getattr(loaded, f"m3d_{name}_{_TYPES[dtype]}_{native.INSTRUCTION_SETS[chosen]}")
    function.restype = None
    return function


def _c(argument: Argument) -> Any:
    kind = type(argument)  # not isinstance, which is slow for tensors; there are thousands a second
    if kind is int:
        return ctypes.c_int64(argument)  # type: ignore[arg-type]
    if kind is float:
        return ctypes.c_double(argument)  # type: ignore[arg-type]
    if kind is list:
        return (ctypes.c_int64 * len(argument))(*argument)  # type: ignore[arg-type, misc]
    return ctypes.c_void_p(None if argument is None else argument.data_ptr())  # type: ignore[union-attr]
