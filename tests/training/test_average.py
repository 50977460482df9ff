from __future__ import annotations

import torch
from torch import Tensor, nn

from graphs import random_graph
from m3dphormer.models import create_model
from m3dphormer.training import average
from m3dphormer.training.loop import Fit, State, fit, predict
from m3dphormer.training.settings import TrainConfig


class Watching:
    """Copies the weights after every epoch."""

    def __init__(self) -> None:
        self.weights: list[dict[str, Tensor]] = []

    def restore(self, state: State) -> None:
        pass

    def keep(self, state: State) -> None:
        self.weights.append(average.copied(state.model))


def train(decay: float, epochs: int = 12) -> tuple[Fit, list[dict[str, Tensor]], nn.Module]:
    data, watching = random_graph(), Watching()
    torch.manual_seed(0)
    model = create_model("m3dphormer", data, hidden=8, clusters=4, norm="batch")
    config = TrainConfig(lr=0.01, epochs=epochs, average=decay)
    graph = model.prepare(data)
    result = fit(model, graph, data, config, "accuracy", keeper=watching)
    assert (predict(model, graph) == result.probabilities).all()
    return result, watching.weights, model


def test_training_takes_the_same_steps_with_an_average_and_without() -> None:
    (one, steps, _), (other, same, _) = train(0.8), train(0.0)
    assert [epoch.loss for epoch in one.history] == [epoch.loss for epoch in other.history]
    for left, right in zip(steps, same, strict=True):
        assert all(torch.equal(left[name], right[name]) for name in left)
    assert [epoch.val for epoch in one.history] != [epoch.val for epoch in other.history]


def test_the_kept_weights_are_the_mean_at_first_then_an_exponential_average() -> None:
    result, steps, model = train(0.8)
    weights = [1.0]
    for epoch in range(2, result.best.epoch + 1):
        decay = min(0.8, 1 - 1 / epoch)
        weights = [*(decay * weight for weight in weights), 1 - decay]
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            expected = sum(w * step[name] for w, step in zip(weights, steps, strict=False))
            torch.testing.assert_close(tensor, expected)
        else:
            assert int(tensor) == result.best.epoch
    assert result.best.epoch > 5  # so that it was more than a mean


def test_without_an_average_the_kept_weights_are_those_of_the_epoch() -> None:
    result, steps, _ = train(0.0)
    kept = steps[result.best.epoch - 1]
    assert all(torch.equal(result.weights[name], kept[name]) for name in kept)


def test_a_model_has_its_own_weights_again() -> None:
    model = nn.BatchNorm1d(3)
    before = average.copied(model)
    with average.carrying(model, {name: tensor + 1 for name, tensor in before.items()}):
        assert model.weight.tolist() == [2.0, 2.0, 2.0]
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
