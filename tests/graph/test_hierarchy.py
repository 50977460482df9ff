"""Each group of nodes is classified by one level, and only by that one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph.hierarchy import LEVELS, hierarchy
from m3dphormer.graph.raw import finish
from m3dphormer.masks import assign


def votes(data: Data) -> dict[str, Tensor]:
    """Class votes of the neighbours, of the METIS cluster, and of nodes with like features."""
    n = data.num_nodes
    labels = one_hot(data.y).float()
    source, target = data.edge_index
    neighbours = torch.zeros_like(labels).index_add(0, source, labels[target])
    cluster = assign(data, "auto")
    members = torch.zeros(n, labels.shape[1]).index_add(0, cluster, labels)[cluster] - labels
    x = normalize(data.x)
    alike = (20 * (x @ x.T)).fill_diagonal_(-torch.inf).softmax(1) @ labels
    return {"local": neighbours, "cluster": members, "global": alike}


@pytest.mark.parametrize("classes", [3, 4, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_right_level_classifies_its_nodes_and_the_others_do_not(
    classes: int, seed: int
) -> None:
    data = finish(hierarchy(classes=classes, seed=seed))
    for level, vote in votes(data).items():
        right = (vote.argmax(1) == data.y).float()
        for group, name in enumerate(LEVELS):
            share = right[data.level == group].mean()
            assert share > 0.95 if name == level else share < 0.6, (level, name, share)


def test_every_class_has_nodes_of_every_level() -> None:
    data = finish(hierarchy(classes=5))
    for level in range(3):
        assert data.y[data.level == level].bincount(minlength=5).min() > 20


def test_size_classes_noise_and_seed_are_parameters() -> None:
    data = finish(hierarchy(nodes=650, classes=5, noise=0.0, seed=3))
    assert data.num_nodes == 640
    assert len(data.label_names) == 5
    assert len(data.x.unique(dim=0)) == 10  # without noise, one feature row a class and kind
    assert data.source == "generated (nodes=650, classes=5, noise=0, seed=3)"
    assert not torch.equal(finish(hierarchy(seed=1)).y, finish(hierarchy(seed=2)).y)
    assert torch.equal(finish(hierarchy(seed=1)).x, finish(hierarchy(seed=1)).x)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"nodes": 100}, "at least 192"), ({"classes": 1}, "at least 2"), ({"noise": -1}, "least 0")],
)
def test_parameters_out_of_range(parameters: dict[str, int], words: str) -> None:
    with pytest.raises(UserError, match=words):
        hierarchy(**parameters)
