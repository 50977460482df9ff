"""Small graphs and masks for tests, drawn by hypothesis or made at random."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer import masks
from m3dphormer.masks import Mask
from m3dphormer.models.check import random_graph

__all__ = ["BUILT_IN", "any_graphs", "dense_adjacency", "random_graph", "two_masks"]

BUILT_IN = ("c1", "c2", "c3", "c4", "g1", "g2", "g3", "l1", "l2")


def dense_adjacency(data: Data) -> Tensor:
    """D^-1/2 (A + I) D^-1/2 of a finished graph, [N, N] in float64."""
    a = torch.eye(data.num_nodes, dtype=torch.float64)
    a[data.edge_index[0], data.edge_index[1]] = 1
    return a / (a.sum(0)[:, None] * a.sum(1)[None, :]).sqrt()


@st.composite
def any_graphs(draw: st.DrawFn, max_nodes: int = 12) -> Data:
    """Any PyG Data: directed, duplicate and self edges, isolated nodes, one node, one class."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=3 * n))
    classes = draw(st.integers(1, 4))
    y = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    train = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return Data(
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T,
        y=torch.tensor(y),
        train_mask=torch.tensor(train),
        label_names=[str(c) for c in range(classes)],
        num_nodes=n,
    )


@st.composite
def two_masks(draw: st.DrawFn) -> tuple[Mask, Mask]:
    """Any two masks on one graph with one partition, or their unions with a third."""
    data = draw(any_graphs())
    cluster = torch.arange(data.num_nodes) % draw(st.integers(1, data.num_nodes))

    def one() -> Mask:
        name, loops = draw(st.sampled_from(BUILT_IN)), draw(st.booleans())
        return masks.build_from(name, data, {"clusters": cluster, "self_loops": loops})

    def some() -> Mask:
        return one() | one() if draw(st.booleans()) else one()

    return some(), some()
