"""Some rows of a state, by the passes of csrc/take.h."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention.structure import passes


def take(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows] of [T, d], for at least one row, sorted, none twice."""
    out: Tensor = _Take.apply(x, rows)  # type: ignore[no-untyped-call]
    return out


def fork(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """x and x[rows]; their gradients become one without a tensor of zeros between them."""
    both: tuple[Tensor, Tensor] = _Fork.apply(x, rows)  # type: ignore[no-untyped-call]
    return both


def _taken(x: Tensor, rows: Tensor) -> Tensor:
    out = x.new_empty(len(rows), x.shape[1])
    passes.run("take_rows", x.dtype, out, x.contiguous(), rows, *out.shape)
    return out


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.rows, ctx.shape = rows, x.shape
        return _taken(x, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out = grad.new_empty(ctx.shape)
        sizes = (len(ctx.rows), *ctx.shape)
        passes.run("spread_rows", grad.dtype, out, grad.contiguous(), ctx.rows, *sizes)
        return out, None


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.rows = rows
        return x.view_as(x), _taken(x, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, own: Tensor) -> tuple[Tensor | None, ...]:
        grad = grad.contiguous()  # of the one reader that the whole state has, so it may be changed
        passes.run("give_rows", grad.dtype, grad, own.contiguous(), ctx.rows, *own.shape)
        return grad, None
