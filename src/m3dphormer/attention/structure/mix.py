"""Rewrite 7, the end of a layer: dropout(ReLU(sum of gated experts)) + residual, or the bare sum.

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

SMALLEST = 64  # rows of a block in the backward pass, at least
BLOCKS = 64  # in which the gradients of a blend's values are summed, at most


@dataclass(frozen=True)
class Blend:
    """Rows whose every head is a weighted sum of a few values; ``mix`` never writes them down.

    Args:
        weights: [n, H, C].
        values: [C, H, d_h].
    """

    weights: Tensor
    values: Tensor

    def __len__(self) -> int:
        return len(self.weights)

    def rows(self) -> Tensor:
        """[n, d]."""
        return torch.einsum("nhc,che->nhe", self.weights, self.values).flatten(1)


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
    rows: Tensor | Blend


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
        return _mixed(pieces, gates, residual, dropout, bare=False)
    mixed = gather(pieces, gates, torch.zeros_like(residual), fused=False)
    return drop_features(mixed.relu(), dropout) + residual


def gather(pieces: Sequence[Piece], gates: Tensor, residual: Tensor, *, fused: bool) -> Tensor:
    """Residual and gated experts as one sum [T, d], before any ReLU."""
    if fused and passes.serve(residual):
        return _mixed(pieces, gates, residual, None, bare=True)
    mixed = residual
    for piece in pieces:
        answer = piece.rows.rows() if isinstance(piece.rows, Blend) else piece.rows
        rows = slice(piece.start, piece.start + len(answer))
        gated = gates[rows, piece.expert : piece.expert + 1] * answer
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


def _mixed(
    pieces: Sequence[Piece],
    gates: Tensor,
    residual: Tensor,
    dropout: Dropout | None,
    *,
    bare: bool,
) -> Tensor:
    blends = [piece.rows for piece in pieces if isinstance(piece.rows, Blend)]
    table = Table(
        starts=[piece.start for piece in pieces],
        stops=[piece.start + len(piece.rows) for piece in pieces],
        experts=[piece.expert for piece in pieces],
        keys=[len(p.rows.values) if isinstance(p.rows, Blend) else 0 for p in pieces],
        heads=blends[0].weights.shape[1] if blends else 1,
    )
    given = [p.rows.values if isinstance(p.rows, Blend) else p.rows for p in pieces]
    weights = [p.rows.weights if isinstance(p.rows, Blend) else None for p in pieces]
    rest = (dropout, bare, table)
    out: Tensor = _Mix.apply(gates, residual, rest, *given, *weights)  # type: ignore[no-untyped-call]
    return out


@dataclass(frozen=True)
class Table:
    """The pieces as a pass takes them: first row, past the last, expert, and keys of a blend."""

    starts: list[int]
    stops: list[int]
    experts: list[int]
    keys: list[int]
    heads: int

    @property
    def arguments(self) -> tuple[list[int] | int, ...]:
        lists = (self.starts, self.stops, self.experts, self.keys)
        return *lists, len(self.starts), self.heads


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, residual: Tensor, rest: Any, *given: Tensor | None
    ) -> Tensor:
        dropout, bare, table = rest
        gates, residual = gates.contiguous(), residual.contiguous()
        given = tuple(None if tensor is None else tensor.contiguous() for tensor in given)
        ctx.save_for_backward(gates, *given)
        ctx.rest = rest
        out, half = torch.empty_like(residual), len(given) // 2
        sides = (passes.addresses(given[:half]), passes.addresses(given[half:]))
        sizes = (*out.shape, gates.shape[1], int(bare), *passes.dropped(dropout))
        passes.run("mix_forward", out.dtype, out, residual, gates, *sides, *table.arguments, *sizes)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        gates, *given = ctx.saved_tensors
        dropout, bare, table = ctx.rest
        grad, half = grad.contiguous(), len(given) // 2
        rows, width = grad.shape
        grad_gates = torch.empty_like(gates)
        grads = [None if tensor is None else torch.empty_like(tensor) for tensor in given]
        step = max(SMALLEST, -(-rows // BLOCKS)) if any(table.keys) else SMALLEST
        partial = [
            grad.new_empty(-(-rows // step), keys, width) if keys else None for keys in table.keys
        ]
        sides = (passes.addresses(given[:half]), passes.addresses(given[half:]), *table.arguments)
        backs = [passes.addresses(part) for part in (grads[:half], grads[half:], partial)]
        sizes = (step, *grad.shape, gates.shape[1], int(bare), *passes.dropped(dropout))
        passes.run("mix_backward", grad.dtype, grad, gates, grad_gates, *sides, *backs, *sizes)
        return grad_gates, grad, None, *grads
