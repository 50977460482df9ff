"""A weighted sum over neighbours is a product with a dense matrix, in value and gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from graphs import any_graphs, random_graph
from m3dphormer.masks import adjacency
from m3dphormer.models.propagate import Neighbours, edges


def dense(data: Data, loops: bool) -> Tensor:
    matrix = to_dense_adj(adjacency.edges(data), max_num_nodes=data.num_nodes)[0].double()
    return matrix + torch.eye(data.num_nodes).double() if loops else matrix


@settings(deadline=None)
@given(any_graphs(), st.booleans(), st.integers(1, 5))
def test_the_sum_is_the_dense_product(data: Data, loops: bool, width: int) -> None:
    data.x = torch.ones(data.num_nodes, 1)
    near, full = Neighbours.of(data, loops=loops), dense(data, loops)
    values = torch.randn(len(near.rows)).double().requires_grad_()
    h = torch.randn(data.num_nodes, width).double().requires_grad_()
    matrix = torch.zeros_like(full).index_put((near.rows, near.columns), values)
    assert torch.equal(matrix != 0, full != 0)
    one, other = near.sum(values, h), matrix @ h
    torch.testing.assert_close(one, other)
    weight = torch.randn_like(other)
    for left, right in zip(
        torch.autograd.grad((one * weight).sum(), (values, h)),
        torch.autograd.grad((other * weight).sum(), (values, h)),
        strict=True,
    ):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("loops", [False, True])
def test_the_two_normalisations(loops: bool) -> None:
    data = random_graph()
    near, full = Neighbours.of(data, loops=loops), dense(data, loops)
    degree = full.sum(1)
    root = torch.where(degree > 0, degree.rsqrt(), 0.0)
    symmetric = near.matrix(near.symmetric(torch.float64)).to_dense()
    torch.testing.assert_close(symmetric, root[:, None] * full * root[None, :])
    mean = near.matrix(near.mean(torch.float64)).to_dense()
    torch.testing.assert_close(mean, full / degree.clamp(min=1)[:, None])


def test_edges_are_sorted_and_go_both_ways() -> None:
    data = Data(edge_index=torch.tensor([[2, 0, 2], [0, 1, 2]]), x=torch.ones(4, 1), num_nodes=4)
    assert edges(data, loops=False).tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert edges(data, loops=True).tolist() == [[0, 0, 0, 1, 1, 2, 2, 3], [0, 1, 2, 0, 1, 0, 2, 3]]
