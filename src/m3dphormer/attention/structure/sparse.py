"""A matrix that is mostly zeros, mapped linearly by its non-zeros: the passes of csrc/sparse.h."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from m3dphormer.attention.structure import passes

RUN = 12  # non-zeros of a feature in a block of rows, on average
BLOCK = 128  # rows of a block, at least


@dataclass(frozen=True)
class Sparse:
    """The non-zeros of X [N, F] by row, and where to find them by feature.

    Args:
        first: [N + 1], where each row's numbers begin in ``values``.
        columns: the feature of each of ``values``; None where they are all of X, zeros too.
        values: the non-zeros, row by row, or all of X.
        runs: [blocks * F + 1], where each feature's non-zeros of each block of rows begin in
            ``rows`` and ``places``.
        rows: the row of each in its block.
        places: where its value is, counted from the first of its block.
        block: rows of a block.
        shape: N and F.
    """

    first: Tensor
    columns: Tensor | None
    values: Tensor
    runs: Tensor
    rows: Tensor
    places: Tensor
    block: int
    shape: tuple[int, int]

    @classmethod
    def of(cls, x: Tensor, *, packed: bool) -> Sparse:
        """X by its non-zeros; unless they are packed, ``values`` is X and only gradients serve."""
        (n, width), x = x.shape, x.contiguous()
        block = min(block_rows(float((x != 0).sum()) / max(x.numel(), 1)), max(n, 1))
        counts, columns, rows, places = [], [], [], []
        for part in torch.split(x != 0, block):
            column, row = part.t().nonzero().unbind(1)
            place = row * width + column
            if packed:
                columns.append(part.nonzero()[:, 1].int())
                place = (part.flatten().cumsum(0) - 1)[place]
            counts.append(part.sum(0))
            rows.append(row.int())
            places.append(place.int())
        return cls(
            _begins((x != 0).sum(1)) if packed else torch.arange(n + 1) * width,
            torch.cat(columns) if packed else None,
            x[x != 0] if packed else x.view(-1),
            _begins(torch.cat(counts)),
            torch.cat(rows),
            torch.cat(places),
            block,
            (n, width),
        )

    @property
    def packed(self) -> bool:
        """Whether ``times`` serves."""
        return self.columns is not None

    def times(self, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
        """X W^T + b into ``out``, contiguous."""
        assert self.columns is not None
        weight, bias = weight.contiguous(), None if bias is None else bias.contiguous()
        sides = (out, weight, bias, *self._given())
        passes.run("pick_forward", out.dtype, *sides, len(weight))

    def to_weights(self, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of the weight [d, F] and the bias [d] from that of the result."""
        grad, outputs = grad.contiguous(), grad.shape[1]
        by_weight, by_bias = grad.new_empty(outputs, self.shape[1]), grad.new_empty(outputs)
        sides = (by_weight, by_bias, grad, *self._given())
        passes.run("pick_weights", grad.dtype, *sides, outputs)
        return by_weight, by_bias

    def dropped(self, p: float) -> Sparse:
        """The same with each value dropped with probability p."""
        return replace(self, values=drop(self.values, p))

    def _given(self) -> tuple[passes.Argument, ...]:
        lists = (self.first, self.columns, self.values, self.runs, self.rows, self.places)
        return (*lists, self.block, *self.shape)


def block_rows(density: float) -> int:
    """How many rows a block has, so that runs are worth their sums and a block stays in cache."""
    return max(BLOCK, round(RUN / max(density, 1e-9)))


def _begins(counts: Tensor) -> Tensor:
    """Where each of several lists begins, one behind the other, and the end."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
