"""Rewrite 7, the end of a layer: dropout(ReLU(sum of gated experts)) + residual.

In one pass that never holds [T, experts, d], or in plain torch; both drop the same entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import passes


@dataclass(frozen=True)
class Piece:
    """What an expert answers for a run of rows; elsewhere it answers 0.

    Args:
        expert: Whose gate it takes.
        start: Its first row.
        rows: [n, d].
    """

    expert: int
    start: int
    rows: Tensor


def mix(
    pieces: Sequence[Piece],
    gates: Tensor,
    residual: Tensor,
    dropout: Dropout | None,
    *,
    fused: bool,
) -> Tensor:
    """The next state [T, d], from gates [T, experts] and the residual projection [T, d]."""
    if fused and passes.serve(residual):
        places = tuple((piece.expert, piece.start) for piece in pieces)
        out: Tensor = _Mix.apply(  # type: ignore[no-untyped-call]
            gates, residual, dropout, places, *(piece.rows for piece in pieces)
        )
        return out
    return (
        drop_features(gather(pieces, gates, torch.zeros_like(residual)).relu(), dropout) + residual
    )


def gather(pieces: Sequence[Piece], gates: Tensor, residual: Tensor) -> Tensor:
    """Residual and gated experts as one sum [T, d], in plain torch."""
    mixed = residual
    for piece in pieces:
        rows = slice(piece.start, piece.start + len(piece.rows))
        gated = gates[rows, piece.expert : piece.expert + 1] * piece.rows
        if len(gated) == len(mixed):
            mixed = mixed + gated
        else:
            mixed = mixed.index_add(0, torch.arange(len(mixed), device=mixed.device)[rows], gated)
    return mixed


def drop_features(h: Tensor, dropout: Dropout | None) -> Tensor:
    """Dropout of single numbers of [T, d], keyed by row and column."""
    return h if dropout is None else h * _factors(h, dropout)


def dropout(h: Tensor, p: float, training: bool) -> Tensor:
    """Dropout of [T, d] by a seed from torch's generator; many times faster than torch's own."""
    drop = Dropout(p, int(torch.randint(2**62, ()))) if training and p else None
    return drop_features(h, drop)


def _factors(h: Tensor, dropout: Dropout) -> Tensor:
    rows, width = h.shape
    if passes.serve(h):
        factors = torch.empty_like(h, memory_format=torch.contiguous_format)
        passes.run("keep_rows", h.dtype, factors, rows, width, *passes.dropped(dropout))
        return factors
    row, column = (torch.arange(size, device=h.device) for size in (rows, width))
    row = row if dropout.names is None else dropout.names
    return dropout.scale(row[:, None], column[None, :], heads=1).squeeze(-1).to(h.dtype)


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        residual: Tensor,
        dropout: Dropout | None,
        places: tuple[tuple[int, int], ...],
        *given: Tensor,
    ) -> Tensor:
        gates, residual = gates.contiguous(), residual.contiguous()
        pieces = [piece.contiguous() for piece in given]
        ctx.save_for_backward(gates, *pieces)
        ctx.rest = dropout, places
        out = torch.empty_like(residual)
        sizes = (*out.shape, gates.shape[1])
        rest = (passes.addresses(pieces), *_table(pieces, places), *sizes, *passes.dropped(dropout))
        passes.run("mix_forward", out.dtype, out, residual, gates, *rest)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gates, *pieces = ctx.saved_tensors
        dropout, places = ctx.rest
        grad = grad.contiguous()
        grad_gates, grads = torch.empty_like(gates), [torch.empty_like(piece) for piece in pieces]
        both, sizes = (
            (passes.addresses(pieces), passes.addresses(grads)),
            (*grad.shape, gates.shape[1]),
        )
        rest = (*both, *_table(pieces, places), *sizes, *passes.dropped(dropout))
        passes.run("mix_backward", grad.dtype, grad, gates, grad_gates, *rest)
        return grad_gates, grad, None, None, *grads


def _table(
    pieces: Sequence[Tensor], places: tuple[tuple[int, int], ...]
) -> tuple[list[int], list[int], list[int], int]:
    """First row, past the last, and expert of each piece, and how many there are."""
    experts, starts = [expert for expert, _ in places], [start for _, start in places]
    stops = [start + len(piece) for start, piece in zip(starts, pieces, strict=True)]
    return starts, stops, experts, len(pieces)
