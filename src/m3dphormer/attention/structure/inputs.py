"""Rewrite 6, the input layer: sparse where the features are sparse, virtual rows never built.

A virtual node's features are the mean of its members', and mean(X) W = mean(X W).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import dropout as drop
from torch.nn.functional import linear

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import maps, passes
from m3dphormer.attention.structure.maps import Map
from m3dphormer.attention.structure.mix import drop_features
from m3dphormer.attention.structure.sparse import Sparse

SPARSE_FORWARD = 0.2  # share of non-zeros below which X W is faster sparse
SPARSE_BACKWARD = 0.5  # the same for X^T G
MEANS_FROM = 16  # numbers in the virtual rows for each node, from which means of X W are cheaper

Group = tuple[Tensor, int]  # the group of each node, -1 for none, and how many groups


@dataclass(frozen=True)
class Features:
    """The features of real and virtual rows, in the forms that serve.

    Args:
        x: [N, F].
        virtual: [V, F] means of members, where they are so few that they are built.
        means: [V, N] sparse, and its transpose, where they are not.
        sparse: the non-zeros of X, where X^T G is faster so; packed, where X W is.
    """

    x: Tensor
    virtual: Tensor | None
    means: tuple[Tensor, Tensor] | None
    sparse: Sparse | None

    def project(self, layer: nn.Linear) -> Tensor:
        """X W + b of all T rows."""
        return self.times(layer.weight, layer.bias)

    def times(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """The same with the weights [d, F] and [d] of a linear layer."""
        if self.means is None and self.sparse is None and self.virtual is None:
            return linear(self.x, weight, bias)
        out: Tensor = _Project.apply(self, weight, bias)  # type: ignore[no-untyped-call]
        return out

    def dropped(self, p: float) -> Features:
        """What ``times`` and ``project`` read with each number of X dropped with probability p.

        Without virtual rows, and without a copy of X where it is sparse: a zero stays a zero.
        """
        if self.sparse is None:
            return replace(self, x=drop(self.x, p))
        sparse = self.sparse.dropped(p)
        x = self.x if sparse.packed else sparse.values.view_as(self.x)
        return replace(self, x=x, sparse=sparse)


def plain_features(x: Tensor, groups: Sequence[Group]) -> Features:
    """All T rows built."""
    rows = torch.cat([x, *(group_means(x, *group) for group in groups)])
    return Features(rows, None, None, None)


def features(x: Tensor, groups: Sequence[Group]) -> Features:
    """Whatever is cheapest."""
    if not passes.serve(x):
        return plain_features(x, groups)
    density = float((x != 0).sum()) / max(x.numel(), 1)
    virtual = sum(count for _, count in groups)
    built = virtual * x.shape[1] < MEANS_FROM * len(x)
    return Features(
        x,
        torch.cat([group_means(x, *group) for group in groups]) if built and groups else None,
        None if built else _mean_matrices(groups, x),
        Sparse.of(x, packed=density < SPARSE_FORWARD) if density < SPARSE_BACKWARD else None,
    )


def group_means(x: Tensor, group: Tensor, count: int) -> Tensor:
    """Mean feature row of each group, [count, F]; -1 is in none, an empty group gets zeros."""
    members = (group >= 0).nonzero().squeeze(1)
    sums = x.new_zeros(count, x.shape[1]).index_add(0, group[members], x[members])
    sizes = torch.bincount(group[members], minlength=count).clamp(min=1)
    return sums / sizes.unsqueeze(1)


def _mean_matrices(groups: Sequence[Group], x: Tensor) -> tuple[Tensor, Tensor]:
    """[V, N] that averages members, and its transpose."""
    rows, columns, values, first = [], [], [], 0
    for group, count in groups:
        members = (group >= 0).nonzero().squeeze(1)
        sizes = torch.bincount(group[members], minlength=count)
        rows.append(group[members] + first)
        columns.append(members)
        values.append(1 / sizes[group[members]].to(x.dtype))
        first += count
    place = torch.stack([torch.cat(rows), torch.cat(columns)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse tensors a beta
        means = torch.sparse_coo_tensor(place, torch.cat(values), (first, len(x)))
        return means.to_sparse_csr(), means.t().to_sparse_csr()


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Features, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.given, ctx.biased = given, bias is not None
        n = len(given.x)
        if given.means is not None:
            total = n + len(given.means[0])
        else:
            total = n + (0 if given.virtual is None else len(given.virtual))
        out = given.x.new_empty(total, len(weight))
        own = bias if given.means is None else None  # the mean of no rows would lack it
        if given.sparse is None or not given.sparse.packed:
            maps.apply(given.x, [Map(weight, own, n)], [out[:n]])
        else:
            given.sparse.times(weight, own, out[:n])
        if given.means is not None:
            torch.mm(given.means[0], out[:n], out=out[n:])
            return out if bias is None else out.add_(bias)
        if given.virtual is not None:
            out[n:] = linear(given.virtual, weight, bias)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor | None]:
        given: Features = ctx.given
        n, real = len(given.x), grad[: len(given.x)]
        if given.means is not None:
            real = torch.addmm(real, given.means[1], grad[n:])
        if given.sparse is None:
            ((by_weight, by_bias),) = maps.to_weights(given.x, [real])
        else:
            by_weight, by_bias = given.sparse.to_weights(real)
        if given.virtual is not None:
            by_weight = torch.addmm(by_weight, grad[n:].t(), given.virtual)
            by_bias = by_bias + grad[n:].sum(0)
        if given.means is not None:
            by_bias = grad.sum(0)
        return None, by_weight, by_bias if ctx.biased else None


def skip(z: Tensor, dropout: Dropout | None, *, fused: bool) -> Tensor:
    """dropout(z + ReLU(z))."""
    if not fused or not passes.serve(z):
        return drop_features(z + z.relu(), dropout)
    out: Tensor = _Skip.apply(z, dropout)  # type: ignore[no-untyped-call]
    return out


class _Skip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, dropout: Dropout | None) -> Tensor:
        z = z.contiguous()
        out = torch.empty_like(z)
        passes.run("skip_forward", z.dtype, out, z, *z.shape, *passes.dropped(dropout))
        ctx.save_for_backward(out)
        ctx.dropout = dropout
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors
        grad, grad_z = grad.contiguous(), torch.empty_like(out)
        drop = passes.dropped(ctx.dropout)
        passes.run("skip_backward", out.dtype, grad_z, grad, out, *out.shape, *drop)
        return grad_z, None
