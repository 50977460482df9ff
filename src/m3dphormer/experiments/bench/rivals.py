"""The forms of attention that are timed: our schemes, and PyG's message passing.

Each is a function of the same tensors, so that only the attention itself is compared.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn import GATConv, TransformerConv

from m3dphormer.attention import attend, attend_additive
from m3dphormer.experiments.bench.cases import PYG
from m3dphormer.masks import Mask

Inputs = tuple[Tensor, Tensor, Tensor]
Attention = Callable[[Inputs, int], Tensor]  # (inputs, seed) -> [T, H, d_h]


def inputs(kind: str, rows: int, heads: int, head_width: int) -> Inputs:
    """Fresh leaves: q, k, v for "dot"; a, b, v for "additive"."""
    generator = torch.Generator().manual_seed(0)
    wide, narrow = (rows, heads, head_width), (rows, heads)
    first = wide if kind == "dot" else narrow
    a, b, v = (torch.randn(shape, generator=generator) for shape in (first, first, wide))
    return a.requires_grad_(), b.requires_grad_(), v.requires_grad_()


def build(name: str, kind: str, mask: Mask, heads: int, head_width: int, p: float) -> Attention:
    """One of ``cases.forms`` as a function."""
    if name == PYG[kind]:
        return _pyg(kind, mask, heads, head_width, p)
    if kind == "dot":
        return lambda x, seed: attend(*x, mask, scheme=name, dropout=p, seed=seed)
    return lambda x, seed: attend_additive(*x, mask, scheme=name, dropout=p, seed=seed)


def _pyg(kind: str, mask: Mask, heads: int, head_width: int, p: float) -> Attention:
    csr = mask.to_csr()
    edge_index = torch.stack([csr.indices, csr.rows])  # PyG sends from key to query
    if kind == "dot":
        dot = TransformerConv(heads * head_width, head_width, heads, dropout=p, root_weight=False)
        return lambda x, seed: dot.propagate(
            edge_index, query=x[0], key=x[1], value=x[2], edge_attr=None
        )
    gat = GATConv(heads * head_width, head_width, heads, dropout=p, add_self_loops=False)

    def additive(x: Inputs, seed: int) -> Tensor:
        a, b, v = x
        alpha = gat.edge_updater(edge_index, alpha=(b, a), edge_attr=None, size=None)
        out: Tensor = gat.propagate(edge_index, x=(v, v), alpha=alpha, size=None)
        return out

    return additive
