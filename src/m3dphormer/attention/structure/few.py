"""Every row sees the same few keys, with scores at hand: softmax and dropout in one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import passes


def few_weights(scores: Tensor, first: int, dropout: Dropout | None) -> Tensor:
    """Weights [N, H, C] after dropout from scores; ``first``: row of the first key."""
    out: Tensor = _Weigh.apply(scores, first, dropout)  # type: ignore[no-untyped-call]
    return out


class _Weigh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, first: int, dropout: Dropout | None) -> Tensor:
        scores = scores.contiguous()
        out, rest = torch.empty_like(scores), (first, *passes.dropped(dropout))
        passes.run("few_forward", scores.dtype, out, scores, *scores.shape, *rest)
        ctx.save_for_backward(scores)
        ctx.rest = rest
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (scores,) = ctx.saved_tensors
        out, given = torch.empty_like(scores), (grad.contiguous(), scores)
        passes.run("few_backward", scores.dtype, out, *given, *scores.shape, *ctx.rest)
        return out, None, None
