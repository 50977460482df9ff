"""Encodings that stand in for features: finite on any graph, and the eigenvectors they claim."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.utils import remove_self_loops, to_undirected

from m3dphormer.errors import UserNotice
from m3dphormer.graph.encodings import (
    DENSE_BELOW,
    EIGENVECTORS,
    laplacian_encoding,
    structural_features,
)


def encode(pairs: list[tuple[int, int]], num_nodes: int) -> torch.Tensor:
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    edges = to_undirected(remove_self_loops(edges)[0], num_nodes=num_nodes)
    with pytest.warns(UserNotice, match="^mine: no features; degree and Laplacian encodings"):
        return structural_features("mine", edges, num_nodes)


def ring(num_nodes: int, start: int = 0) -> list[tuple[int, int]]:
    return [(start + i, start + (i + 1) % num_nodes) for i in range(num_nodes)]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    num_nodes = draw(st.integers(1, 40))
    node = st.integers(0, num_nodes - 1)
    return draw(st.lists(st.tuples(node, node), max_size=80)), num_nodes


@given(graphs())
def test_encodings_are_finite_for_any_graph(graph: tuple[list[tuple[int, int]], int]) -> None:
    pairs, num_nodes = graph
    x = encode(pairs, num_nodes)
    assert x.dtype == torch.float32
    assert len(x) == num_nodes
    assert torch.isfinite(x).all()


@pytest.mark.parametrize("num_nodes", [40, DENSE_BELOW + 100])
@pytest.mark.parametrize(
    "shape", ["no edges", "one edge", "pairs", "two rings", "star", "isolated nodes"]
)
def test_encodings_are_finite_on_either_solver(shape: str, num_nodes: int) -> None:
    half = num_nodes // 2
    pairs = {
        "no edges": [],
        "one edge": [(0, 1)],
        "pairs": [(2 * i, 2 * i + 1) for i in range(half)],
        "two rings": ring(half) + ring(half, start=half),
        "star": [(0, i) for i in range(1, num_nodes)],
        "isolated nodes": ring(half),
    }[shape]
    x = encode(pairs, num_nodes)
    assert torch.isfinite(x).all()
    assert x.shape[1] == (1 + EIGENVECTORS if pairs else 1)


def test_the_first_column_is_the_standardised_log_degree() -> None:
    x = encode([(0, 1), (0, 2), (0, 3)], 5)
    log_degree = np.log1p([3, 1, 1, 1, 0])
    expected = (log_degree - log_degree.mean()) / log_degree.std()
    assert np.allclose(x[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("num_nodes", [30, DENSE_BELOW + 20])
def test_the_other_columns_are_eigenvectors_of_unit_variance(num_nodes: int) -> None:
    rng = np.random.RandomState(0)
    pairs = ring(num_nodes) + [tuple(pair) for pair in rng.randint(num_nodes, size=(60, 2))]
    vectors = encode(pairs, num_nodes)[:, 1:].double().numpy()
    adjacency = np.zeros((num_nodes, num_nodes))
    for source, target in pairs:
        adjacency[source, target] = adjacency[target, source] = source != target
    root = adjacency.sum(axis=1) ** -0.5
    laplacian = np.eye(num_nodes) - root[:, None] * adjacency * root
    smallest = np.linalg.eigvalsh(laplacian)[1 : 1 + EIGENVECTORS]
    assert np.allclose((vectors**2).mean(axis=0), 1, atol=1e-4)
    assert np.allclose(laplacian @ vectors, vectors * smallest, atol=2e-2)
    assert (vectors.sum(axis=0) > -1e-3).all()


def test_encodings_are_the_same_on_every_call() -> None:
    pairs = [*ring(DENSE_BELOW + 1), (0, 100), (5, 300), (7, 250)]
    assert torch.equal(encode(pairs, DENSE_BELOW + 1), encode(pairs, DENSE_BELOW + 1))


def test_an_encoding_is_the_same_eigenvectors_of_unit_length() -> None:
    edges = to_undirected(torch.tensor([*ring(30), (0, 7), (3, 20), (5, 11)]).T)
    with pytest.warns(UserNotice):
        features = structural_features("mine", edges, 30)
    encoding = laplacian_encoding(edges, 30, 5)
    torch.testing.assert_close(encoding * 30**0.5, features[:, 1:6])
    torch.testing.assert_close(encoding.norm(dim=0), torch.ones(5))


@pytest.mark.parametrize(("num_nodes", "found"), [(1, 0), (2, 0), (3, 1), (6, 4)])
def test_an_encoding_has_the_width_that_was_asked_for(num_nodes: int, found: int) -> None:
    path = torch.stack([torch.arange(num_nodes - 1), torch.arange(1, num_nodes)])
    encoding = laplacian_encoding(to_undirected(path), num_nodes, 8)
    assert encoding.shape == (num_nodes, 8)
    assert encoding.any(dim=0).tolist() == [True] * found + [False] * (8 - found)
