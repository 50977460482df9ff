"""The kernels as operators of torch: shapes checked, gradients and fake kernels registered.

``torch.ops.m3dphormer.dot`` and ``.additive``, each with its ``_backward``; so autograd,
``torch.compile`` and ``torch.export`` see one opaque operator a pass. A dropout of 0 keeps all.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention import native
from m3dphormer.attention.dropout import Dropout
from m3dphormer.errors import UserError

_CSR = "Tensor indptr, Tensor indices, Tensor t_indptr, Tensor t_indices, Tensor? order"
_DROP = "float dropout, SymInt seed, SymInt call"
_SAVED = "Tensor grad_out, Tensor out, Tensor lse"

torch.library.define(
    "m3dphormer::dot", f"(Tensor q, Tensor k, Tensor v, {_CSR}, {_DROP}) -> (Tensor, Tensor)"
)
torch.library.define(
    "m3dphormer::dot_backward",
    f"({_SAVED}, Tensor q, Tensor k, Tensor v, {_CSR}, {_DROP}) -> (Tensor, Tensor, Tensor)",
)
torch.library.define(
    "m3dphormer::additive",
    f"(Tensor a, Tensor b, Tensor v, {_CSR}, {_DROP}, float slope) -> (Tensor, Tensor)",
)
torch.library.define(
    "m3dphormer::additive_backward",
    f"({_SAVED}, Tensor a, Tensor b, Tensor v, {_CSR}, {_DROP}, float slope)"
    " -> (Tensor, Tensor, Tensor)",
)


@torch.library.impl("m3dphormer::dot", "CPU")
def _dot(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _forward("dot_forward", {"q": q, "k": k, "v": v}, rest[:5], rest[5:8])


@torch.library.impl("m3dphormer::additive", "CPU")
def _additive(a: Tensor, b: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _forward("additive_forward", {"a": a, "b": b, "v": v}, rest[:5], rest[5:8], rest[8])


@torch.library.impl("m3dphormer::dot_backward", "CPU")
def _dot_backward(
    grad_out: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    saved = {"grad_out": grad_out, "out": out, "lse": lse}
    return _backward("dot_backward", saved, {"q": q, "k": k, "v": v}, rest[:5], rest[5:8])


@torch.library.impl("m3dphormer::additive_backward", "CPU")
def _additive_backward(
    grad_out: Tensor, out: Tensor, lse: Tensor, a: Tensor, b: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    saved, given = {"grad_out": grad_out, "out": out, "lse": lse}, {"a": a, "b": b, "v": v}
    return _backward("additive_backward", saved, given, rest[:5], rest[5:8], rest[8])


def _forward(
    kernel: str,
    given: dict[str, Tensor],
    csr: tuple[Tensor | None, ...],
    drop: tuple[float, int, int],
    slope: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Output [T, H, d_h] and log-sum-exp [T, H]."""
    sizes = _check(given, csr)
    tensors = _contiguous(given | _named(csr))
    v = tensors["v"]
    out, lse = torch.empty_like(v), v.new_empty(v.shape[:2])
    tensors |= {"out": out, "lse": lse}
    native.run(kernel, sizes, v.dtype, _dropout(drop), tensors, scale=_scale(sizes), slope=slope)
    return out, lse


def _backward(
    kernel: str,
    saved: dict[str, Tensor],
    given: dict[str, Tensor],
    csr: tuple[Tensor | None, ...],
    drop: tuple[float, int, int],
    slope: float = 0.0,
) -> tuple[Tensor, ...]:
    """Gradients of ``given``, in their order."""
    sizes = _check(given, csr)
    v = given["v"]
    _check_saved(saved, v)
    tensors = _contiguous(given | saved | _named(csr))
    grads = {f"grad_{name}": torch.empty_like(tensors[name]) for name in given}
    tensors |= grads
    tensors["delta"] = torch.empty_like(tensors["lse"])
    native.run(kernel, sizes, v.dtype, _dropout(drop), tensors, scale=_scale(sizes), slope=slope)
    return tuple(grads.values())


def _check(
    given: dict[str, Tensor], csr: tuple[Tensor | None, ...]
) -> tuple[int, int, int, int, int]:
    """Refuse what the kernels cannot take; T, m, H and the two d_h."""
    x, y, v = given.values()
    kind = v.dtype
    if x.dtype != kind or y.dtype != kind or kind not in (torch.float32, torch.float64):
        told = ", ".join(str(t.dtype).removeprefix("torch.") for t in given.values())
        raise UserError(f"Attention needs float32 or float64, one for all. Got {told}.")
    shape, shape_v, dims = x.shape, v.shape, 3 if "q" in given else 2
    if len(shape_v) != 3 or len(shape) != dims or shape != y.shape or shape[:2] != shape_v[:2]:
        told = ", ".join(str(tuple(t.shape)) for t in given.values())
        raise UserError(f"Scores and values must have the same rows and heads. Got {told}.")
    rows, heads, width = shape_v
    index = [part for part in csr if part is not None]
    entries = len(index[1])
    sizes = ((rows + 1,), (entries,), (rows + 1,), (entries,), (rows,))
    for part, size in zip(index, sizes, strict=False):
        if part.dtype != torch.int64 or part.shape != size:
            raise UserError(f"The mask's CSR must be int64, of {rows} rows.")
    for tensor in (x, y, v, *index):
        if not tensor.is_cpu:
            raise UserError("The fused kernels run on the CPU; a tensor is elsewhere.")
    return rows, entries, heads, shape[2] if dims == 3 else 0, width


def _check_saved(saved: dict[str, Tensor], v: Tensor) -> None:
    shape = v.shape
    for name, tensor in saved.items():
        right = shape[:2] if name == "lse" else shape
        if tensor.shape != right or tensor.dtype != v.dtype or not tensor.is_cpu:
            raise UserError(f"{name} must have the output's shape, type and device.")


def _named(csr: tuple[Tensor | None, ...]) -> dict[str, Tensor]:
    names = ("indptr", "indices", "t_indptr", "t_indices", "order")
    return {name: part for name, part in zip(names, csr, strict=True) if part is not None}


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _dropout(drop: tuple[float, int, int]) -> Dropout | None:
    return Dropout(*drop) if drop[0] else None


def _scale(sizes: tuple[int, ...]) -> float:
    return 1 / math.sqrt(sizes[3]) if sizes[3] else 0.0


def _fake(x: Tensor, y: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(v, memory_format=torch.contiguous_format), v.new_empty(v.shape[:2])


def _fake_backward(
    grad_out: Tensor, out: Tensor, lse: Tensor, x: Tensor, y: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    x, y, v = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (x, y, v))
    return x, y, v


class _Attention(torch.autograd.Function):
    """A forward operator with its backward one."""

    @staticmethod
    def forward(
        ctx: Any, name: str, x: Tensor, y: Tensor, v: Tensor, *rest: Any
    ) -> tuple[Tensor, Tensor]:
        with torch._C._AutoDispatchBelowAutograd():
            out, lse = getattr(torch.ops.m3dphormer, name).default(x, y, v, *rest)
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(out, lse, x, y, v, *rest[:5])
        ctx.name, ctx.numbers = name, rest[5:]
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        nothing = (None,) * (5 + len(ctx.numbers))
        if grad_out is None:
            return (None, None, None, None, *nothing)
        operator = getattr(torch.ops.m3dphormer, ctx.name + "_backward").default
        return (None, *operator(grad_out, *ctx.saved_tensors, *ctx.numbers), *nothing)


def _register(name: str) -> None:
    # Not register_autograd: it reads the schema anew at each call, half of a small graph's time.
    @torch.library.impl(f"m3dphormer::{name}", "Autograd")
    def differentiable(*given: Any) -> tuple[Tensor, Tensor]:
        both: tuple[Tensor, Tensor] = _Attention.apply(name, *given)  # type: ignore[no-untyped-call]
        return both

    torch.library.register_fake(f"m3dphormer::{name}", _fake)
    torch.library.register_fake(f"m3dphormer::{name}_backward", _fake_backward)


_register("dot")
_register("additive")
