"""Sums over neighbours, M H for a symmetric pattern M of an edge's two ends: one sparse product.

PyG gathers a row for each edge and adds them up; a product with M as CSR gives the same numbers
without that [E, d] tensor, and its gradient is the product with the transpose.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.data import Data
from torch_geometric.index import index2ptr

from m3dphormer.masks import adjacency


@dataclass(frozen=True)
class Neighbours:
    """Who is beside whom, A or A + I, entries sorted by row, then column.

    Args:
        indptr: [N + 1].
        rows, columns: [E].
        reverse: [E], the place of the entry (v, u) for each entry (u, v).
    """

    indptr: Tensor
    rows: Tensor
    columns: Tensor
    reverse: Tensor

    @classmethod
    def of(cls, data: Data, *, loops: bool) -> Neighbours:
        """The graph's, each node beside itself where ``loops``."""
        rows, columns = edges(data, loops=loops)
        indptr = index2ptr(rows, int(data.num_nodes))
        return cls(indptr, rows, columns, torch.argsort(columns, stable=True))

    def degrees(self, dtype: torch.dtype) -> Tensor:
        """How many entries each row has, [N]."""
        return self.indptr.diff().to(dtype)

    def symmetric(self, dtype: torch.dtype) -> Tensor:
        """The values of D^-1/2 M D^-1/2, [E]."""
        scale = self.degrees(dtype).rsqrt()
        return scale[self.rows] * scale[self.columns]

    def mean(self, dtype: torch.dtype) -> Tensor:
        """The values of D^-1 M, [E]."""
        return 1 / self.degrees(dtype)[self.rows]

    def sum(self, values: Tensor, h: Tensor) -> Tensor:
        """Row u of the answer is the sum over its entries (u, v) of value times h_v, [N, d]."""
        out: Tensor = _Sum.apply(self, values, h)  # type: ignore[no-untyped-call]
        return out

    def matrix(self, values: Tensor) -> Tensor:
        """[N, N] as a CSR tensor."""
        n, places = len(self.indptr) - 1, (self.indptr, self.columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse tensors a beta
            return torch.sparse_csr_tensor(*places, values, (n, n), check_invariants=False)


def edges(data: Data, *, loops: bool) -> Tensor:
    """[2, E], sorted, both directions of each edge, with u = v for every u where ``loops``."""
    if not loops:
        return adjacency.edges(data).to(data.x.device)
    indptr, columns = adjacency.with_self_loops(data)
    rows = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())
    return torch.stack([rows, columns]).to(data.x.device)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, near: Neighbours, values: Tensor, h: Tensor) -> Tensor:
        ctx.near = near
        ctx.save_for_backward(values, h)
        return near.matrix(values) @ h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        near: Neighbours = ctx.near
        values, h = ctx.saved_tensors
        by_values = by_h = None
        if ctx.needs_input_grad[1]:
            nothing = near.matrix(torch.zeros_like(values))
            by_values = torch.sparse.sampled_addmm(nothing, grad, h.t(), beta=0.0).values()
        if ctx.needs_input_grad[2]:
            by_h = near.matrix(values[near.reverse]) @ grad
        return None, by_values, by_h
