"""Several linear maps of one tall matrix, and their gradients, by the passes of csrc/product.h.

The state of a layer is read by many small matrices. Together they read it once, their gradients
are added in registers, and biases cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from m3dphormer.attention.structure import passes

SPAN = 1024  # rows whose part of a weight's gradient is summed apart, at least
SPANS = 16  # such sums, at most


@dataclass(frozen=True)
class Map:
    """A linear map of the first ``rows`` rows: [rows, d] to [rows, outputs]."""

    weight: Tensor  # [outputs, d]
    bias: Tensor | None
    rows: int

    @classmethod
    def of(cls, layer: nn.Linear, rows: int) -> Map:
        return cls(layer.weight, layer.bias, rows)


def apply(x: Tensor, maps: Sequence[Map], outs: Sequence[Tensor] | None = None) -> list[Tensor]:
    """x W^T + b of each map, [rows, outputs]; into ``outs``, contiguous, where they are given."""
    weights = [each.weight.contiguous() for each in maps]
    biases = [None if each.bias is None else each.bias.contiguous() for each in maps]
    if outs is None:
        outs = [x.new_empty(each.rows, len(each.weight)) for each in maps]
    sides = (passes.addresses(weights), passes.addresses(biases), passes.addresses(outs))
    passes.run("map_forward", x.dtype, x.contiguous(), *sides, *_sizes(outs), *x.shape)
    return list(outs)


def to_rows(weights: Sequence[Tensor], grads: Sequence[Tensor], rows: int) -> Tensor:
    """The gradient [rows, d] of what was mapped, from those of the results."""
    weights, grads = [w.contiguous() for w in weights], [g.contiguous() for g in grads]
    width = weights[0].shape[1]
    grad = grads[0].new_empty(rows, width)
    sides = (passes.addresses(weights), passes.addresses(grads))
    passes.run("map_rows", grad.dtype, grad, *sides, *_sizes(grads), rows, width)
    return grad


def to_weights(x: Tensor, grads: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """The gradients of each map's weight [outputs, d] and bias [outputs]."""
    x, grads = x.contiguous(), [grad.contiguous() for grad in grads]
    rows, width = x.shape
    spans = min(rows // SPAN + 1, SPANS)
    outputs = [grad.shape[1] for grad in grads]
    sizes = [*(n * width for n in outputs), *outputs]
    both, partial = x.new_empty(sum(sizes)), x.new_empty(spans, sum(sizes))
    given = (passes.addresses(grads), *_sizes(grads), spans, rows, width)
    passes.run("map_weights", x.dtype, both, partial, x, *given)
    parts = torch.split(both, sizes)
    by_weight = (part.view(-1, width) for part in parts[: len(grads)])
    return list(zip(by_weight, parts[len(grads) :], strict=True))


def _sizes(sides: Sequence[Tensor]) -> tuple[list[int], list[int], int]:
    """Outputs and rows of each map, and how many there are."""
    return [side.shape[1] for side in sides], [len(side) for side in sides], len(sides)
