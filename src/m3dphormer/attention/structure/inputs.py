"""Rewrite 6, the input layer: sparse where the features are sparse, virtual rows never built.

A virtual node's features are the mean of its members', and mean(X) W = mean(X W).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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

SPARSE_FORWARD = 0.2  # share of non-zeros below which X W is faster sparse
SPARSE_BACKWARD = 0.05  # the same for X^T G, whose rows are long
MEANS_FROM = 16  # numbers in the virtual rows for each node, from which means of X W are cheaper

Group = tuple[Tensor, int]  # the group of each node, -1 for none, and how many groups


@dataclass(frozen=True)
class Features:
    """The features of real and virtual rows, in the forms that serve.

    Args:
        x: [N, F].
        virtual: [V, F] means of members, where they are so few that they are built.
        means: [V, N] sparse, and its transpose, where they are not.
        sparse: X as CSR, where X W is faster so.
        columns: X^T as CSR, where X^T G is faster so.
    """

    x: Tensor
    virtual: Tensor | None
    means: tuple[Tensor, Tensor] | None
    sparse: Tensor | None
    columns: Tensor | None

    def project(self, layer: nn.Linear) -> Tensor:
        """X W + b of all T rows."""
        return self.times(layer.weight, layer.bias)

    def times(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """The same with the weights [d, F] and [d] of a linear layer."""
        if not passes.serve(self.x):
            return linear(self.x, weight, bias)
        out: Tensor = _Project.apply(self, weight, bias)  # type: ignore[no-untyped-call]
        return out

    def dropped(self, p: float) -> Features:
        """What ``times`` and ``project`` read with each number of X dropped with probability p.

        Without virtual rows, and without a copy of X where it is sparse: a zero stays a zero.
        """
        if self.sparse is None or self.columns is None:
            return replace(self, x=drop(self.x, p), sparse=None)
        values = drop(self.sparse.values(), p)
        by_column = values[self._by_column]
        return replace(
            self,
            sparse=_with_values(self.sparse, values),
            columns=_with_values(self.columns, by_column),
        )

    @cached_property
    def _by_column(self) -> Tensor:
        """Where the values of ``columns`` stand among those of ``sparse``."""
        assert self.sparse is not None
        return torch.argsort(self.sparse.col_indices(), stable=True)


def plain_features(x: Tensor, groups: Sequence[Group]) -> Features:
    """All T rows built."""
    rows = torch.cat([x, *(group_means(x, *group) for group in groups)])
    return Features(rows, None, None, None, None)


def features(x: Tensor, groups: Sequence[Group]) -> Features:
    """Whatever is cheapest."""
    if not passes.serve(x):
        return plain_features(x, groups)
    density = float((x != 0).sum()) / max(x.numel(), 1)
    virtual = sum(count for _, count in groups)
    built = virtual * x.shape[1] < MEANS_FROM * len(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse tensors a beta
        return Features(
            x,
            torch.cat([group_means(x, *group) for group in groups]) if built and groups else None,
            None if built else _mean_matrices(groups, x),
            x.to_sparse_csr() if density < SPARSE_FORWARD else None,
            x.t().to_sparse_csr() if density < SPARSE_BACKWARD else None,
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
    means = torch.sparse_coo_tensor(place, torch.cat(values), (first, len(x)))
    return means.to_sparse_csr(), means.t().to_sparse_csr()


def _with_values(matrix: Tensor, values: Tensor) -> Tensor:
    """A CSR with the same places and other values."""
    places = matrix.crow_indices(), matrix.col_indices()
    return torch.sparse_csr_tensor(*places, values, matrix.shape, check_invariants=False)


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
        if given.sparse is None:
            maps.apply(given.x, [Map(weight, None, n)], [out[:n]])
        else:
            torch.mm(given.sparse, weight.t(), out=out[:n])
        if given.means is not None:
            torch.mm(given.means[0], out[:n], out=out[n:])
        elif given.virtual is not None:
            torch.mm(given.virtual, weight.t(), out=out[n:])
        return out if bias is None else out.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor | None]:
        given: Features = ctx.given
        n, real = len(given.x), grad[: len(given.x)]
        if given.means is not None:
            real = torch.addmm(real, given.means[1], grad[n:])
        if given.columns is None:
            ((by_weight, _),) = maps.to_weights(given.x, [real])
        else:
            by_weight = (given.columns @ real).t()
        if given.virtual is not None:
            by_weight = torch.addmm(by_weight, grad[n:].t(), given.virtual)
        return None, by_weight, grad.sum(0) if ctx.biased else None


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
