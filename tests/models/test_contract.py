"""What holds for every registered model, whatever it computes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.models import Model, create_model, list_models

pytestmark = pytest.mark.parametrize("name", list_models())


def model_for(name: str, data: Data, seed: int = 0) -> Model:
    torch.manual_seed(seed)
    return create_model(name, data, hidden=8, layers=2).double()


def graph_for(seed: int = 0) -> Data:
    data = random_graph(seed=seed)
    data.x = data.x.double()
    return data


def logits(model: Model, data: Data) -> Tensor:
    model.eval()
    with torch.no_grad():
        return model(model.prepare(data))


def with_partition(model: Model, data: Data) -> Data:
    cluster = model.partition(data)
    if cluster is not None:
        data.cluster = cluster
    return data


def relabelled(data: Data, order: Tensor) -> Data:
    """The same graph with node ``order[i]`` at place i."""
    place = torch.argsort(order)
    moved = data.clone()
    moved.edge_index = place[data.edge_index]
    for key in ("x", "y", "train_mask", "val_mask", "test_mask", "cluster"):
        if key in data:
            moved[key] = data[key][order]
    return moved


def test_relabelling_the_nodes_permutes_the_logits_and_nothing_else(name: str) -> None:
    data = graph_for()
    model = model_for(name, data)
    data = with_partition(model, data)
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        logits(model, relabelled(data, order)), logits(model, data)[order], rtol=1e-9, atol=1e-9
    )


def test_relabelling_holds_to_1e_5_in_float32(name: str) -> None:
    data = random_graph()
    torch.manual_seed(0)
    model = create_model(name, data, hidden=8, layers=2)
    data = with_partition(model, data)
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(1))
    difference = logits(model, relabelled(data, order)) - logits(model, data)[order]
    assert difference.abs().max() < 1e-5


def test_the_order_of_edges_does_not_matter(name: str) -> None:
    data = graph_for()
    model = model_for(name, data)
    before = logits(model, data)
    data.edge_index = data.edge_index[:, torch.randperm(data.num_edges)]
    torch.testing.assert_close(logits(model, data), before, rtol=1e-9, atol=1e-9)


def test_every_parameter_gets_a_gradient(name: str) -> None:
    data = graph_for()
    model = model_for(name, data).train()
    model.loss(model.prepare(data), data).backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


def test_labels_outside_the_training_set_change_neither_loss_nor_logits(name: str) -> None:
    data = graph_for()
    model = model_for(name, data).eval()
    other = data.clone()
    other.y = torch.where(data.train_mask, data.y, (data.y + 1) % 3)
    assert torch.equal(logits(model, other), logits(model, data))
    assert torch.equal(
        model.loss(model.prepare(other), other), model.loss(model.prepare(data), data)
    )


def test_the_same_seed_gives_the_same_bits_in_training(name: str) -> None:
    data = graph_for()
    losses = []
    for _ in range(2):
        model = model_for(name, data, seed=3).train()
        losses.append(model.loss(model.prepare(data), data))
    assert torch.equal(*losses)


def test_evaluation_is_without_chance(name: str) -> None:
    data = graph_for()
    model = model_for(name, data)
    assert torch.equal(logits(model, data), logits(model, data))
