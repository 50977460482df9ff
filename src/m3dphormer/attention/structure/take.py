"""Some rows of a state, by the passes of csrc/take.h."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention.structure import passes


def take(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows] of [T, d], no row twice."""
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


def _give(into: Tensor, grad: Tensor, rows: Tensor) -> Tensor:
    passes.run("give_rows", into.dtype, into, grad.contiguous(), rows, *grad.shape)
    return into


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.rows, ctx.shape = rows, x.shape
        return _taken(x, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _give(grad.new_zeros(ctx.shape), grad, ctx.rows), None


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.rows = rows
        return x.view_as(x), _taken(x, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, own: Tensor) -> tuple[Tensor | None, ...]:
        # In place: ``attend_all`` has one reader of the whole state, whose gradient is nobody else's.
        return _give(grad.contiguous(), own, ctx.rows), None
