from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.utils import is_undirected

from m3dphormer.masks.expander import WHOLE_UP_TO, expander


@pytest.mark.parametrize("nodes", [11, 60, 700])
@pytest.mark.parametrize("degree", [1, 3])
def test_everyone_has_about_twice_the_degree_and_no_loops(nodes: int, degree: int) -> None:
    edges = expander(nodes, degree)
    assert is_undirected(edges)
    assert (edges[0] != edges[1]).all()
    counts = torch.bincount(edges[0], minlength=nodes)
    assert counts.max() <= 2 * degree
    assert counts.float().mean() > 2 * degree * (1 - 2 * degree / nodes) - 0.5


@pytest.mark.parametrize("nodes", [60, 700])
def test_the_gap_is_nearly_the_best(nodes: int) -> None:
    dense = torch.zeros(nodes, nodes, dtype=torch.double)
    dense[tuple(expander(nodes, 3))] = 1
    second = torch.linalg.eigvalsh(dense)[-2]
    assert second < 2 * math.sqrt(5) + 0.3  # a few edges were drawn twice


def test_the_same_every_time() -> None:
    assert torch.equal(expander(100, 3), expander(100, 3))


@pytest.mark.parametrize("nodes", [1, 2, WHOLE_UP_TO])
def test_few_nodes_are_all_linked(nodes: int) -> None:
    assert expander(nodes, 3).shape == (2, nodes * (nodes - 1))
