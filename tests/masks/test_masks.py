"""Every mask equals its definition, on any graph."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from graphs import any_graphs
from m3dphormer.masks import Mask, c4, g3, l2


def define_l2(data: Data) -> Tensor:
    n = data.num_nodes
    seen = torch.eye(n, dtype=torch.bool)
    for u, v in data.edge_index.T.tolist():
        seen[u, v] = seen[v, u] = True
    return seen


def define_c4(cluster: list[int], self_loops: bool) -> Tensor:
    n, p = len(cluster), max(cluster) + 1
    seen = torch.zeros(n + p, n + p, dtype=torch.bool)
    for u, c in enumerate(cluster):
        seen[u, u] = seen[u, n + c] = seen[n + c, u] = True
    for c in range(p):
        seen[n + c, n + c] = self_loops
    return seen


def define_g3(data: Data) -> Tensor:
    n, classes = data.num_nodes, len(data.label_names)
    seen = torch.zeros(n + classes, n + classes, dtype=torch.bool)
    seen[:n, n:] = True
    for u in range(n):
        if data.train_mask[u]:
            seen[n + data.y[u], u] = True
    return seen


def agrees(mask: Mask, dense: Tensor) -> None:
    assert torch.equal(mask.to_dense(), dense)
    assert mask.nnz == int(dense.sum())
    csr = mask.to_csr()
    assert csr.indptr.tolist() == [0, *dense.sum(1).cumsum(0).tolist()]
    assert torch.equal(torch.stack([csr.rows, csr.indices]), dense.nonzero().T)


@given(any_graphs())
def test_l2_is_the_neighbours_and_the_node_itself(data: Data) -> None:
    agrees(l2(data), define_l2(data))


@given(any_graphs(), st.data(), st.booleans())
def test_c4_is_the_node_its_cluster_node_and_the_members(
    data: Data, draw: st.DataObject, self_loops: bool
) -> None:
    n = data.num_nodes
    wild = draw.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    cluster = torch.tensor(wild).unique(return_inverse=True)[1]
    mask = c4(data, clusters=cluster, self_loops=self_loops)
    agrees(mask, define_c4(cluster.tolist(), self_loops))
    assert mask.nnz == 3 * n + (mask.layout.clusters if self_loops else 0)


@given(any_graphs())
def test_g3_is_every_class_node_and_the_training_nodes(data: Data) -> None:
    mask = g3(data)
    agrees(mask, define_g3(data))
    assert mask.nnz == data.num_nodes * len(data.label_names) + int(data.train_mask.sum())


@given(any_graphs())
def test_g3_does_not_change_with_labels_outside_the_training_set(data: Data) -> None:
    before = g3(data).to_dense()
    data.y[~data.train_mask] = (data.y[~data.train_mask] + 1) % len(data.label_names)
    assert torch.equal(g3(data).to_dense(), before)
