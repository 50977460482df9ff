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
def _dot(
    q: Tensor, k: Tensor, v: Tensor, *csr_and_dropout: Any
) -> tuple[Tensor, Tensor]:
    csr, drop = csr_and_dropout[:4], csr_and_dropout[4:]
    sizes = _check((q, k), v, csr, score_dims=3)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out, lse = torch.empty_like(v), v.new_empty(v.shape[:2])
    native.run(
        "dot_forward", sizes, v.dtype, _dropout(*drop), scale=1 / math.sqrt(q.shape[2]),
        **_named(csr), q=q, k=k, v=v, out=out, lse=lse,
    )  # fmt: skip
    return out, lse


@torch.library.impl("m3dphormer::dot_backward", "CPU")
def _dot_backward(
    grad_out: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    csr, drop = rest[:4], rest[4:]
    sizes = _check((q, k), v, csr, score_dims=3)
    _check_saved(grad_out, out, lse, v)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    grads = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    native.run(
        "dot_backward", sizes, v.dtype, _dropout(*drop), scale=1 / math.sqrt(q.shape[2]),
        **_named(csr), q=q, k=k, v=v, grad_out=grad_out.contiguous(), out=out.contiguous(),
        lse=lse.contiguous(), delta=torch.empty_like(lse),
        grad_q=grads[0], grad_k=grads[1], grad_v=grads[2],
    )  # fmt: skip
    return grads


@torch.library.impl("m3dphormer::additive", "CPU")
def _additive(a: Tensor, b: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    csr, drop, slope = rest[:4], rest[4:7], rest[7]
    sizes = _check((a, b), v, csr, score_dims=2)
    a, b, v = a.contiguous(), b.contiguous(), v.contiguous()
    out, lse = torch.empty_like(v), v.new_empty(v.shape[:2])
    native.run(
        "additive_forward", sizes, v.dtype, _dropout(*drop), slope=slope,
        **_named(csr), a=a, b=b, v=v, out=out, lse=lse,
    )  # fmt: skip
    return out, lse


@torch.library.impl("m3dphormer::additive_backward", "CPU")
def _additive_backward(
    grad_out: Tensor, out: Tensor, lse: Tensor, a: Tensor, b: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    csr, drop, slope = rest[:4], rest[4:7], rest[7]
    sizes = _check((a, b), v, csr, score_dims=2)
    _check_saved(grad_out, out, lse, v)
    a, b, v = a.contiguous(), b.contiguous(), v.contiguous()
    grads = torch.empty_like(a), torch.empty_like(b), torch.empty_like(v)
    native.run(
        "additive_backward", sizes, v.dtype, _dropout(*drop), slope=slope,
        **_named(csr), a=a, b=b, v=v, grad_out=grad_out.contiguous(), out=out.contiguous(),
        lse=lse.contiguous(), delta=torch.empty_like(lse),
        grad_a=grads[0], grad_b=grads[1], grad_v=grads[2],
    )  # fmt: skip
    return grads


def _check(
    scores: tuple[Tensor, Tensor], v: Tensor, csr: tuple[Tensor, ...], score_dims: int
) -> tuple[int, int, int, int, int]:
    """Refuse what the kernels cannot take; T, m, H and the two d_h."""
    rows, heads, width = v.shape if v.dim() == 3 else (-1, -1, -1)
    for tensor in (*scores, v):
        if tensor.dtype != v.dtype or tensor.dtype not in (torch.float32, torch.float64):
            kinds = ", ".join(str(t.dtype).removeprefix("torch.") for t in (*scores, v))
            raise UserError(f"Attention needs float32 or float64, one for all. Got {kinds}.")
        if tensor.device.type != "cpu":
            raise UserError(f"The fused kernels run on the CPU. Got {tensor.device}.")
    if (
        any(t.dim() != score_dims or t.shape[:2] != v.shape[:2] for t in scores)
        or scores[0].shape != scores[1].shape
    ):
        shapes = ", ".join(str(tuple(t.shape)) for t in (*scores, v))
        raise UserError(f"Scores and values must have the same rows and heads. Got {shapes}.")
    indptr, indices, t_indptr, t_indices = csr
    if (
        indptr.shape != (rows + 1,)
        or t_indptr.shape != indptr.shape
        or indices.dim() != 1
        or t_indices.shape != indices.shape
        or any(t.dtype != torch.int64 or t.device.type != "cpu" for t in csr)
    ):
        raise UserError(f"The mask's CSR must be int64 on the CPU, of {rows} rows.")
    return rows, len(indices), heads, scores[0].shape[2] if score_dims == 3 else 0, width


def _check_saved(grad_out: Tensor, out: Tensor, lse: Tensor, v: Tensor) -> None:
    if grad_out.shape != v.shape or out.shape != v.shape or lse.shape != v.shape[:2]:
        raise UserError("The output's gradient must have the shape of the output.")
    if any(t.dtype != v.dtype or t.device != v.device for t in (grad_out, out, lse)):
        raise UserError("The output's gradient must have the output's type and device.")


def _named(csr: tuple[Tensor, ...]) -> dict[str, Tensor]:
    names = ("indptr", "indices", "t_indptr", "t_indices")
    return {name: part.contiguous() for name, part in zip(names, csr, strict=True)}


def _dropout(p: float, seed: int, call: int) -> Dropout | None:
    return Dropout(p, seed, call) if p else None


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
