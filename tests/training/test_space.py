from __future__ import annotations

import math

import pytest
from torch_geometric.data import Data

from m3dphormer.training.space import allowed, combinations, search_space

SAME_FOR_ALL = {
    "hidden": (64, 128, 256),
    "dropout": (0.3, 0.5, 0.7),
    "heads": (1, 2, 4, 8),
    "attention_dropout": (0.1, 0.3, 0.5),
    "lr": (5e-4, 1e-3, 5e-3),
    "weight_decay": (0, 1e-4, 5e-4, 1e-3, 5e-3),
}


def graph(name: str, nodes: int = 1000) -> Data:
    return Data(name=name, num_nodes=nodes)


@pytest.mark.parametrize(
    ("name", "layers", "clusters"),
    [
        ("cora", (2, 3, 4), (96, 128, 160, 192)),
        ("computers", (5, 6, 7), (160, 192, 224, 256)),
        ("chameleon", (2, 3, 4), (32, 64, 96, 128)),
        ("squirrel", (5, 6, 7), (96, 128, 160, 192)),
        ("minesweeper", (10, 12, 15), (96, 128, 160, 192)),
    ],
)
def test_the_space_is_that_of_the_papers_appendix(
    name: str, layers: tuple[int, ...], clusters: tuple[int, ...]
) -> None:
    space = search_space("m3dphormer", graph(name))
    assert space == {**SAME_FOR_ALL, "layers": layers, "clusters": clusters}


def test_arxiv_has_one_number_of_clusters_and_batch_norm() -> None:
    space = search_space("m3dphormer", graph("ogbn-arxiv"))
    assert (space["clusters"], space["norm"]) == ((2048,), ("batch",))


@pytest.mark.parametrize(
    ("nodes", "clusters"), [(1000, (15, 31, 62)), (5, (2, 4, 5)), (10**6, (1024, 2048, 4096))]
)
def test_a_graph_of_the_users_own_is_searched_by_its_size(
    nodes: int, clusters: tuple[int, ...]
) -> None:
    space = search_space("m3dphormer", graph("mine", nodes))
    assert (space["layers"], space["clusters"]) == ((2, 3, 4), clusters)


def test_what_is_fixed_is_not_searched() -> None:
    assert "lr" not in search_space("m3dphormer", graph("cora"), {"lr": 0.01})


def test_a_combination_that_a_config_refuses_is_not_allowed() -> None:
    takes = allowed("m3dphormer", {"hidden": 12})
    assert takes({"heads": 4})
    assert not takes({"heads": 8})


def test_all_combinations_come_once_and_in_the_same_order_for_a_seed() -> None:
    space = search_space("m3dphormer", graph("cora"), {"lr", "weight_decay"})
    every = [tuple(drawn.values()) for drawn in combinations(space, seed=3)]
    assert len(set(every)) == len(every) == math.prod(len(values) for values in space.values())
    assert every == [tuple(drawn.values()) for drawn in combinations(space, seed=3)]
    assert every != [tuple(drawn.values()) for drawn in combinations(space, seed=4)]
