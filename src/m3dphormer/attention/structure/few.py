"""Every row sees the same few keys, with scores at hand: softmax, dropout, sum in one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import passes

BLOCKS = 64  # in which the gradient of the few values is summed


def attend_few(scores: Tensor, v: Tensor, first: int, dropout: Dropout | None) -> Tensor:
    """[N, H, d_h] from scores [N, H, C] and values [C, H, d_h]; ``first``: row of the first key."""
    out: Tensor = _Attend.apply(scores, v, first, dropout)  # type: ignore[no-untyped-call]
    return out


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, v: Tensor, first: int, dropout: Dropout | None) -> Tensor:
        scores, v = scores.contiguous(), v.contiguous()
        rows, heads, keys = scores.shape
        out = v.new_empty(rows, heads, v.shape[2])
        sizes = (rows, heads, keys, v.shape[2], first)
        passes.run("few_forward", v.dtype, out, scores, v, *sizes, *passes.dropped(dropout))
        ctx.save_for_backward(scores, v)
        ctx.rest = first, dropout
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores, v = ctx.saved_tensors
        first, dropout = ctx.rest
        rows, heads, keys = scores.shape
        step = max(256, -(-rows // BLOCKS))
        grad_scores, grad_v = torch.empty_like(scores), torch.empty_like(v)
        partial = v.new_empty(-(-rows // step), *v.shape)
        given = (grad.contiguous(), scores, v)
        rest = (rows, heads, keys, v.shape[2], first, step, *passes.dropped(dropout))
        passes.run("few_backward", v.dtype, grad_scores, grad_v, partial, *given, *rest)
        return grad_scores, grad_v, None, None
