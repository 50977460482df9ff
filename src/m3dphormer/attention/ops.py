"""The kernels as operators of torch: shapes checked, gradients and fake kernels registered.

``torch.ops.m3dphormer.dot`` and ``.additive``, each with its ``_backward``; so autograd,
``torch.compile`` and ``torch.export`` see one opaque operator a pass. A dropout of 0 keeps all.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from m3dphormer.attention import native
from m3dphormer.attention.dropout import Dropout
from m3dphormer.errors import UserError

_CSR = "Tensor indptr, Tensor indices, Tensor t_indptr, Tensor t_indices"
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
    return _forward("dot_forward", {"q": q, "k": k, "v": v}, rest[:4], rest[4:7])


@torch.library.impl("m3dphormer::additive", "CPU")
def _additive(a: Tensor, b: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _forward("additive_forward", {"a": a, "b": b, "v": v}, rest[:4], rest[4:7], rest[7])


@torch.library.impl("m3dphormer::dot_backward", "CPU")
def _dot_backward(
    grad_out: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    saved = {"grad_out": grad_out, "out": out, "lse": lse}
    return _backward("dot_backward", saved, {"q": q, "k": k, "v": v}, rest[:4], rest[4:7])


@torch.library.impl("m3dphormer::additive_backward", "CPU")
def _additive_backward(
    grad_out: Tensor, out: Tensor, lse: Tensor, a: Tensor, b: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    saved, given = {"grad_out": grad_out, "out": out, "lse": lse}, {"a": a, "b": b, "v": v}
    return _backward("additive_backward", saved, given, rest[:4], rest[4:7], rest[7])


def _forward(
    kernel: str,
    given: dict[str, Tensor],
    csr: tuple[Tensor, ...],
    drop: tuple[float, int, int],
    slope: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Output [T, H, d_h] and log-sum-exp [T, H]."""
    sizes = _check(given, csr)
    v = given["v"]
    out, lse = v.new_empty(v.shape), v.new_empty(v.shape[:2])
    tensors = _contiguous(given | _named(csr)) | {"out": out, "lse": lse}
    native.run(kernel, sizes, v.dtype, _dropout(drop), tensors, scale=_scale(sizes), slope=slope)
    return out, lse


def _backward(
    kernel: str,
    saved: dict[str, Tensor],
    given: dict[str, Tensor],
    csr: tuple[Tensor, ...],
    drop: tuple[float, int, int],
    slope: float = 0.0,
) -> tuple[Tensor, ...]:
    """Gradients of ``given``, in their order."""
    sizes = _check(given, csr)
    v = given["v"]
    _check_saved(saved, v)
    grads = {f"grad_{name}": tensor.new_empty(tensor.shape) for name, tensor in given.items()}
    scratch = {"delta": v.new_empty(v.shape[:2])}
    tensors = _contiguous(given | saved | _named(csr)) | grads | scratch
    native.run(kernel, sizes, v.dtype, _dropout(drop), tensors, scale=_scale(sizes), slope=slope)
    return tuple(grads.values())


def _check(given: dict[str, Tensor], csr: tuple[Tensor, ...]) -> tuple[int, int, int, int, int]:
    """Refuse what the kernels cannot take; T, m, H and the two d_h."""
    x, y, v = given.values()
    kinds = [t.dtype for t in given.values()]
    if len(set(kinds)) > 1 or v.dtype not in (torch.float32, torch.float64):
        told = ", ".join(str(kind).removeprefix("torch.") for kind in kinds)
        raise UserError(f"Attention needs float32 or float64, one for all. Got {told}.")
    dims = 3 if "q" in given else 2
    if v.dim() != 3 or x.dim() != dims or x.shape != y.shape or x.shape[:2] != v.shape[:2]:
        told = ", ".join(str(tuple(t.shape)) for t in given.values())
        raise UserError(f"Scores and values must have the same rows and heads. Got {told}.")
    rows, heads, width = v.shape
    indptr, indices, t_indptr, t_indices = csr
    if (
        indptr.shape != (rows + 1,)
        or t_indptr.shape != indptr.shape
        or indices.dim() != 1
        or t_indices.shape != indices.shape
        or any(part.dtype != torch.int64 for part in csr)
    ):
        raise UserError(f"The mask's CSR must be int64, of {rows} rows.")
    if any(t.device.type != "cpu" for t in (*given.values(), *csr)):
        raise UserError("The fused kernels run on the CPU; a tensor is elsewhere.")
    return rows, len(indices), heads, x.shape[2] if dims == 3 else 0, width


def _check_saved(saved: dict[str, Tensor], v: Tensor) -> None:
    shapes = (v.shape, v.shape, v.shape[:2])
    for (name, tensor), shape in zip(saved.items(), shapes, strict=True):
        if tensor.shape != shape or tensor.dtype != v.dtype or tensor.device != v.device:
            raise UserError(f"{name} must have the output's shape, type and device.")


def _named(csr: tuple[Tensor, ...]) -> dict[str, Tensor]:
    return dict(zip(("indptr", "indices", "t_indptr", "t_indices"), csr, strict=True))


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


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output, *inputs[:7])
    ctx.numbers = inputs[7:]


def _gradients(operator: Any, ctx: Any, grad_out: Tensor | None) -> tuple[Tensor | None, ...]:
    nothing = (None,) * (4 + len(ctx.numbers))
    if grad_out is None:
        return (None, None, None, *nothing)
    return (*operator(grad_out, *ctx.saved_tensors, *ctx.numbers), *nothing)


def _register(name: str) -> None:
    operator = getattr(torch.ops.m3dphormer, name + "_backward").default

    def backward(ctx: Any, grad_out: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        return _gradients(operator, ctx, grad_out)

    torch.library.register_fake(f"m3dphormer::{name}", _fake)
    torch.library.register_fake(f"m3dphormer::{name}_backward", _fake_backward)
    torch.library.register_autograd(f"m3dphormer::{name}", backward, setup_context=_save)


_register("dot")
_register("additive")
