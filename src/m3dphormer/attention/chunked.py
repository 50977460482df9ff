"""The fused scheme in torch: the mask's entries in chunks, so that memory stays bounded.

For GPUs, half precision, and machines where the kernels could not be built. The formulas are
those of ``csrc/dot.h`` and ``csrc/additive.h``; half precision is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.scores import AdditiveScores, DotScores, Scores
from m3dphormer.masks import CSR, Mask

CHUNK = 2**22  # numbers in the largest temporary


def chunked(scores: Scores, v: Tensor, mask: Mask, dropout: Dropout | None) -> Tensor:
    """Attention over the mask's pairs, [T, H, d_h], in the type of ``v``."""
    csr = mask.to_csr(v.device)
    pair: tuple[Tensor, Tensor]
    if isinstance(scores, AdditiveScores):
        pair, slope = (scores.a, scores.b), scores.slope
    else:
        assert isinstance(scores, DotScores)
        pair, slope = (scores.q, scores.k), None
    wide = v.dtype if v.dtype in (torch.float32, torch.float64) else torch.float32
    x, y, values = (t.to(wide) for t in (*pair, v))
    out: Tensor = _Chunked.apply(x, y, values, csr, dropout, slope)  # type: ignore[no-untyped-call]
    return out.to(v.dtype)


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        v: Tensor,
        csr: CSR,
        drop: Dropout | None,
        slope: float | None,
    ) -> Tensor:
        heads = v.shape[1]
        top = v.new_full((len(v), heads), -torch.inf)
        for rows, keys in _entries(csr, v):
            where = rows.unsqueeze(1).expand(-1, heads)
            top.scatter_reduce_(0, where, _scores(x, y, rows, keys, slope)[0], "amax")
        total, out = torch.zeros_like(top), torch.zeros_like(v)
        for rows, keys in _entries(csr, v):
            weights = (_scores(x, y, rows, keys, slope)[0] - top[rows]).exp()
            total.index_add_(0, rows, weights)
            weights = weights * _kept(drop, rows, keys, v)
            out.index_add_(0, rows, weights.unsqueeze(-1) * v[keys])
        empty = (csr.indptr.diff() == 0).unsqueeze(1)
        out /= total.masked_fill(empty, 1.0).unsqueeze(-1)
        lse = top + total.log()
        ctx.save_for_backward(x, y, v, out, lse)
        ctx.rest = csr, drop, slope
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        x, y, v, out, lse = ctx.saved_tensors
        csr, drop, slope = ctx.rest
        delta = (grad_out * out).sum(-1)
        grad_x, grad_y, grad_v = (torch.zeros_like(t) for t in (x, y, v))
        for rows, keys in _entries(csr, v):
            scores, derivative = _scores(x, y, rows, keys, slope)
            weights = (scores - lse[rows]).exp()
            kept = _kept(drop, rows, keys, v)
            grads = grad_out[rows]
            grad_v.index_add_(0, keys, (weights * kept).unsqueeze(-1) * grads)
            grad = weights * ((grads * v[keys]).sum(-1) * kept - delta[rows]) * derivative
            if slope is None:
                grad_x.index_add_(0, rows, grad.unsqueeze(-1) * y[keys])
                grad_y.index_add_(0, keys, grad.unsqueeze(-1) * x[rows])
            else:
                grad_x.index_add_(0, rows, grad)
                grad_y.index_add_(0, keys, grad)
        return grad_x, grad_y, grad_v, None, None, None


def _entries(csr: CSR, v: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Queries and keys of the mask, a bounded number at a time."""
    step = max(1, CHUNK // max(1, v.shape[1] * v.shape[2]))
    for start in range(0, len(csr.rows), step):
        yield csr.rows[start : start + step], csr.indices[start : start + step]


def _scores(
    x: Tensor, y: Tensor, rows: Tensor, keys: Tensor, slope: float | None
) -> tuple[Tensor, Tensor | float]:
    """Scores of some entries, [m, H], and their derivative by what comes before them."""
    if slope is None:
        scale = 1 / math.sqrt(x.shape[2])
        return (x[rows] * y[keys]).sum(-1) * scale, scale
    before = x[rows] + y[keys]
    derivative = torch.full_like(before, slope).masked_fill_(before > 0, 1.0)
    return before * derivative, derivative


def _kept(drop: Dropout | None, rows: Tensor, keys: Tensor, v: Tensor) -> Tensor | float:
    return 1.0 if drop is None else drop.scale(rows, keys, v.shape[1]).to(v.dtype)
