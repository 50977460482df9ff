from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.errors import UserError
from m3dphormer.models import create_model
from m3dphormer.training.loop import Fit, fit, score
from m3dphormer.training.settings import TrainConfig


def train(data: Data, epochs: int = 12, lr: float = 0.01, metric: str = "accuracy") -> Fit:
    torch.manual_seed(0)
    model = create_model("m3dphormer", data, hidden=8, clusters=4)
    return fit(model, model.prepare(data), data, TrainConfig(lr=lr, epochs=epochs), metric)


def swapped(data: Data, part: str) -> Data:
    other = data.clone()
    other.y = torch.where(data[f"{part}_mask"], (data.y + 1) % 3, data.y)
    return other


def test_test_labels_change_nothing_but_the_test_score() -> None:
    data = random_graph()
    one, other = train(data), train(swapped(data, "test"))
    for left, right in zip(one.history, other.history, strict=True):
        assert (left.loss, left.train, left.val) == (right.loss, right.train, right.val)
    assert one.best.epoch == other.best.epoch
    assert all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)
    assert [e.test for e in one.history] != [e.test for e in other.history]


def test_validation_labels_change_no_training_step_only_which_epoch_is_kept() -> None:
    data = random_graph()
    one, other = train(data, epochs=30), train(swapped(data, "val"), epochs=30)
    assert [e.loss for e in one.history] == [e.loss for e in other.history]
    assert [e.test for e in one.history] == [e.test for e in other.history]
    assert one.best.epoch != other.best.epoch


def test_the_first_epoch_with_the_best_validation_score_is_kept() -> None:
    result = train(random_graph(), epochs=30)
    best = max(epoch.val for epoch in result.history)
    assert result.best == next(epoch for epoch in result.history if epoch.val == best)


def test_the_model_is_left_with_the_kept_weights_and_their_probabilities() -> None:
    data = random_graph()
    torch.manual_seed(0)
    model = create_model("m3dphormer", data, hidden=8, clusters=4)
    graph = model.prepare(data)
    result = fit(model, graph, data, TrainConfig(epochs=20), "accuracy")
    assert torch.equal(model(graph).softmax(1), torch.from_numpy(result.probabilities))
    assert score(result.probabilities, data, "test", "accuracy") == result.best.test


def test_twice_the_same_numbers() -> None:
    data = random_graph()
    one, other = train(data), train(data)
    assert [(e.loss, e.val) for e in one.history] == [(e.loss, e.val) for e in other.history]


def test_it_learns() -> None:
    history = train(random_graph(), epochs=60).history
    assert history[-1].loss < 0.5 * history[0].loss
    assert history[-1].train > history[0].train + 0.2


def test_a_loss_that_is_not_a_number_stops_with_the_epoch_and_a_way_out() -> None:
    data = random_graph()
    data.x[3] = torch.nan
    with pytest.raises(UserError, match="The loss became nan in epoch 1; take a smaller lr"):
        train(data)
