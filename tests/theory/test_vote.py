from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.errors import UserError
from m3dphormer.masks import Mask
from m3dphormer.theory import vote
from m3dphormer.theory.vote import Vote


def plain_shares(mask: Mask, data: Data, tau: float) -> Tensor:
    """Softmax over the training keys of every node but itself, pair by pair."""
    seen = mask.to_dense() & data.train_mask & ~torch.eye(data.num_nodes, dtype=torch.bool)
    cosine = torch.nn.functional.cosine_similarity(data.x[:, None], data.x[None], dim=2).double()
    weights = (tau * cosine).masked_fill(~seen, -torch.inf).softmax(dim=1)
    ballot = torch.nn.functional.one_hot(data.y, 3).double()
    return torch.where(seen.any(dim=1, keepdim=True), weights.nan_to_num() @ ballot, 1 / 3)


@pytest.mark.parametrize("tau", [0.0, 5.0, 20.0])
@pytest.mark.parametrize("name", ["l1", "l2", "c3", "g1"])
def test_a_vote_is_a_softmax_over_the_training_keys(name: str, tau: float) -> None:
    data = random_graph()
    mask = masks.build_from(name, data, {"clusters": 5})
    found = vote(mask, data, [tau])
    assert found.tau == tau
    assert torch.allclose(found.shares, plain_shares(mask, data, tau), atol=1e-5)


def test_a_union_of_masks_votes_as_one() -> None:
    data = random_graph()
    mask = masks.l2(data) | masks.c3(data, clusters=5)
    assert torch.allclose(vote(mask, data, [5.0]).shares, plain_shares(mask, data, 5.0), atol=1e-5)


def test_chunks_do_not_change_a_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_graph()
    whole = {name: vote(masks.build(name, data), data, [5.0]).shares for name in ("l2", "g1")}
    monkeypatch.setattr(import_module("m3dphormer.theory.vote"), "CHUNK", 64)
    for name, shares in whole.items():
        assert torch.allclose(vote(masks.build(name, data), data, [5.0]).shares, shares)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_node_has_no_say_in_its_own_vote(part: str) -> None:
    data = random_graph()
    node = int(data[f"{part}_mask"].nonzero()[0])
    before = vote(masks.g1(data), data, [5.0]).shares[node]
    data.y = data.y.clone()
    data.y[node] = (data.y[node] + 1) % 3
    assert torch.equal(vote(masks.g1(data), data, [5.0]).shares[node], before)


def test_the_temperature_is_chosen_on_validation_nodes_alone() -> None:
    data = random_graph(nodes=200, features=8)
    mask = masks.g1(data)
    votes = [vote(mask, data, [tau]) for tau in (0.0, 5.0, 20.0)]
    errors = [one.error(data.y, data.val_mask) for one in votes]
    chosen = vote(mask, data)
    assert chosen.tau == votes[errors.index(min(errors))].tau
    data.y = torch.where(data.test_mask, 0, data.y)
    assert vote(mask, data).tau == chosen.tau


def test_explains_is_the_true_class_and_predicts_the_largest() -> None:
    one = Vote(0.0, torch.tensor([[0.2, 0.8], [0.7, 0.3], [0.5, 0.5]]))
    assert one.explains(torch.tensor([0, 0, -1])).tolist()[:2] == pytest.approx([0.2, 0.7])
    assert bool(one.explains(torch.tensor([0, 0, -1]))[2].isnan())
    assert one.predicts.tolist() == pytest.approx([0.8, 0.7, 0.5])
    shares = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert replace(one, shares=shares).error(torch.tensor([0, 1]), torch.arange(2)) == 0.0


def test_masks_with_virtual_nodes_and_graphs_without_features_are_refused() -> None:
    data = random_graph()
    with pytest.raises(UserError, match="take c3 for c4"):
        vote(masks.c4(data, clusters=5), data)
    data.x = None
    with pytest.raises(UserError, match="the graph has none"):
        vote(masks.l2(data), data)
