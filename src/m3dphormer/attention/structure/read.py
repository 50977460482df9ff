"""Rewrite 5: whatever is read from a layer's state is read in two steps with one gradient each.

``enter``: the norm and all that reads H itself, the residual projection and the classifier.
``read``: all projections of the normed state. Each is one grouped product; autograd alone would
make a gradient [T, d] for every reader and add them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import maps, passes
from m3dphormer.attention.structure.maps import Map
from m3dphormer.attention.structure.members import Members


@dataclass(frozen=True)
class Pool:
    """Attention of one query a group over its members' states, every head reading whole rows.

    Args:
        queries: [groups, H, d], scale included.
        first: Row number of the first group's query, for dropout.
    """

    queries: Tensor
    members: Members
    first: int
    dropout: Dropout | None


@dataclass(frozen=True)
class Norm:
    """RMSNorm's parameters."""

    weight: Tensor
    bias: Tensor | None
    eps: float


def enter(
    h: Tensor, norm: Norm | None, reads: Sequence[Map], few: slice
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The normed state [T, d], a few rows of it, and what each read of H gives, [T, outputs]."""
    weight, bias, eps = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    maps = [part for item in reads for part in (item.weight, item.bias)]
    z, own, *given = _Enter.apply(h, weight, bias, eps, few, *maps)  # type: ignore[no-untyped-call]
    return z, own, given


def read(z: Tensor, reads: Sequence[Map], pools: Sequence[Pool]) -> list[Tensor]:
    """What each read gives, [rows, outputs]; then each pool's rows [groups, H, d] and weights."""
    plan = (tuple(item.rows for item in reads), tuple(pools))
    weights = [item.weight for item in reads]
    biases = [item.bias for item in reads]
    queries = [pool.queries for pool in pools]
    given = _Read.apply(z, plan, *weights, *biases, *queries)  # type: ignore[no-untyped-call]
    return list(given)


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        few: slice,
        *given: Any,
    ) -> tuple[Tensor, ...]:
        h = h.contiguous()
        if weight is None:
            z, inverse = h.view_as(h), None
        else:
            z, inverse = torch.empty_like(h), h.new_empty(len(h))
            passes.run("norm_forward", h.dtype, z, inverse, h, weight, bias, *h.shape, eps)
        weights, biases = given[::2], given[1::2]
        ctx.save_for_backward(h, inverse, weight, *weights)
        ctx.rest = bias is not None, [own is not None for own in biases], few
        reads = [Map(*each, len(h)) for each in zip(weights, biases, strict=True)]
        outs = maps.apply(h, reads) if reads else []
        return z, z[few].clone(), *outs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_z: Tensor, grad_few: Tensor, *grads: Tensor) -> tuple[Any, ...]:
        h, inverse, weight, *readers = ctx.saved_tensors
        biased, reader_biased, few = ctx.rest
        grad_h = maps.to_rows(readers, grads, len(h)) if readers else torch.empty_like(h)
        by_weight = by_bias = None
        if weight is None:
            grad_h = grad_h + grad_z if readers else grad_z.clone()
            grad_h[few] += grad_few
        else:
            affine = _norm_backward(grad_h, grad_z, h, inverse, weight, fresh=not readers)
            affine += _norm_backward(grad_h[few], grad_few, h[few], inverse[few], weight)
            by_weight, by_bias = affine[0], affine[1] if biased else None
        by_map = zip(maps.to_weights(h, grads) if readers else (), reader_biased, strict=True)
        rest = (part for (each, own), has in by_map for part in (each, own if has else None))
        return grad_h, by_weight, by_bias, None, None, *rest


def _norm_backward(
    grad_h: Tensor,
    grad_z: Tensor,
    h: Tensor,
    inverse: Tensor,
    weight: Tensor,
    *,
    fresh: bool = False,
) -> Tensor:
    """Adds to ``grad_h``, or fills it; gradients of the norm's weight and bias, [2, d]."""
    rows, width = h.shape
    affine, partial = h.new_empty(2, width), h.new_empty(rows // 512 + 1, 2, width)
    given = (grad_z.contiguous(), h, inverse, weight)
    passes.run("norm_backward", h.dtype, grad_h, affine, partial, *given, rows, width, int(fresh))
    return affine


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, plan: Any, *given: Any) -> tuple[Tensor, ...]:
        rows, pools = plan
        count = len(rows)
        weights, biases, queries = given[:count], given[count : 2 * count], given[2 * count :]
        outs = maps.apply(z, [Map(*each) for each in zip(weights, biases, rows, strict=True)])
        pooled = [_pool(z, pool, query) for pool, query in zip(pools, queries, strict=True)]
        kept = [tensor for three in pooled for tensor in three]
        ctx.save_for_backward(z, *weights, *queries, *kept)
        ctx.plan = pools, [bias is not None for bias in biases]
        return *outs, *(tensor for three in pooled for tensor in three[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        pools, biased = ctx.plan
        count = len(biased)
        z, *saved = ctx.saved_tensors
        weights, queries = saved[:count], saved[count : count + len(pools)]
        kept = saved[count + len(pools) :]
        grad_z = maps.to_rows(weights, grads[:count], len(z))
        by_map = maps.to_weights(z, grads[:count])
        grad_queries = [
            _pool_backward(
                grad_z, z, pools[i], queries[i], kept[3 * i : 3 * i + 3], grads[count + 2 * i :][:2]
            )
            for i in range(len(pools))
        ]
        by_weight = (weight for weight, _ in by_map)
        by_bias = (bias if has else None for (_, bias), has in zip(by_map, biased, strict=True))
        return grad_z, None, *by_weight, *by_bias, *grad_queries


def _pool(z: Tensor, pool: Pool, queries: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sum of weighted rows, sum of weights, log-sum-exp."""
    queries = queries.contiguous()
    _, heads, width = queries.shape
    pooled, kept = torch.empty_like(queries), queries.new_empty(queries.shape[:2])
    lse = torch.empty_like(kept)
    states = z.new_empty(pool.members.pieces, heads, width + 3)
    rest = (*pool.members.arguments, pool.first, heads, width, *passes.dropped(pool.dropout))
    passes.run("pool_forward", z.dtype, pooled, kept, lse, states, z, queries, *rest)
    return pooled, kept, lse


def _pool_backward(
    grad_z: Tensor,
    z: Tensor,
    pool: Pool,
    queries: Tensor,
    kept: Sequence[Tensor],
    grads: Sequence[Tensor],
) -> Tensor:
    """Adds to ``grad_z``; gradient of the queries."""
    queries = queries.contiguous()
    _, heads, width = queries.shape
    grad_queries = torch.empty_like(queries)
    partial = z.new_empty(pool.members.pieces, heads, width)
    given = (*(grad.contiguous() for grad in grads), *kept, z, queries)
    rest = (*pool.members.arguments, pool.first, heads, width, *passes.dropped(pool.dropout))
    passes.run("pool_backward", z.dtype, grad_z, grad_queries, partial, *given, *rest)
    return grad_queries
