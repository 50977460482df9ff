"""A block with too many pairs to list them all: the kernels take some query rows at a time.

For what torch's attention does not know (``complete.py``): our dropout, and additive scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention.complete import Complete
from m3dphormer.attention.order import Index

LISTED = 2**24  # pairs that are listed at once, 0.3 GB with their transpose


def in_slabs(operator: str, x: Tensor, y: Tensor, v: Tensor, block: Complete, *rest: Any) -> Tensor:
    """What an operator of ``ops.py`` gives over all pairs of a block, [T, H, d_h].

    Args:
        operator: "dot" or "additive".
        rest: What the operator takes behind the index.
    """
    out: Tensor = _InSlabs.apply(operator, x, y, v, block, rest)  # type: ignore[no-untyped-call]
    return out


class _InSlabs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        x: Tensor,
        y: Tensor,
        v: Tensor,
        block: Complete,
        rest: tuple[Any, ...],
    ) -> Tensor:
        operator = getattr(torch.ops.m3dphormer, name)
        out, lse = torch.zeros_like(v), v.new_zeros(v.shape[:2])
        for index in _slabs(block, len(v)):
            _add((out, lse), operator(x, y, v, *index, *rest))
        ctx.save_for_backward(out, lse, x, y, v)
        ctx.name, ctx.block, ctx.rest = name, block, rest
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        operator = getattr(torch.ops.m3dphormer, ctx.name + "_backward")
        grads = tuple(torch.zeros_like(tensor) for tensor in ctx.saved_tensors[2:])
        for index in _slabs(ctx.block, len(grad_out)):
            _add(grads, operator(grad_out, *ctx.saved_tensors, *index, *ctx.rest))
        return None, *grads, None, None


def _slabs(block: Complete, total: int) -> Iterator[Index]:
    """The index of some query rows at a time, as ``index_of`` gives that of a whole mask."""
    rows = torch.arange(total)
    queries, keys = rows[block.queries], rows[block.keys]
    for some in torch.split(queries, max(1, LISTED // len(keys))):
        yield (
            _indptr(some, len(keys), total),
            keys.repeat(len(some)),
            _indptr(keys, len(some), total),
            some.repeat(len(keys)),
            None,
        )


def _indptr(rows: Tensor, count: int, total: int) -> Tensor:
    """Of a CSR in which these rows have ``count`` entries each and the others none."""
    lengths = torch.zeros(total + 1, dtype=torch.long)
    lengths[rows + 1] = count
    return lengths.cumsum(0)


def _add(wholes: tuple[Tensor, ...], parts: tuple[Tensor, ...]) -> None:
    """Rows that a slab does not touch are 0 in its part."""
    for whole, part in zip(wholes, parts, strict=True):
        whole += part
