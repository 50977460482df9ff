from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.errors import UserError
from m3dphormer.models import Model, ModelConfig, Phase, create_model
from m3dphormer.training.loop import Fit, adam, fit, score
from m3dphormer.training.settings import TrainConfig, resolve


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


class TwoPhases(Model):
    """Trains one matrix in each phase, in two mini-batches an epoch."""

    def __init__(self, features: int, classes: int, config: Any) -> None:
        super().__init__(features, classes, config)
        self.first = nn.Linear(features, classes)
        self.second = nn.Linear(features, classes)
        self.register_buffer("on", torch.tensor(False))
        self.entered: list[str] = []
        self.at_second: dict[str, Tensor] = {}

    def prepare(self, data: Data) -> Tensor:
        return data.x

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) + self.second(x) if self.on else self.first(x)

    def losses(self, graph: Tensor, data: Data) -> Iterator[Tensor]:
        for rows in data.train_mask.nonzero().flatten().chunk(2):
            yield cross_entropy(self(graph)[rows], data.y[rows])

    def phases(self, epochs: int) -> Sequence[Phase]:
        return (Phase("first", 8), Phase("second", epochs - 8, from_best=True))

    def enter(self, phase: str) -> None:
        if phase == "second" and "second" not in self.entered:
            self.at_second = {n: t.clone() for n, t in self.state_dict().items()}
        self.entered.append(phase)
        self.on.fill_(phase == "second")
        self.first.requires_grad_(phase == "first")
        self.second.requires_grad_(phase == "second")

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        return [
            {"params": list(self.first.parameters())},
            {"params": list(self.second.parameters()), "weight_decay": 2 * weight_decay},
        ]


def two_phases(epochs: int = 11, **config: Any) -> tuple[TwoPhases, Fit]:
    data = random_graph()
    torch.manual_seed(0)
    model = TwoPhases(data.num_features, 3, ModelConfig())
    return model, fit(
        model, model.prepare(data), data, TrainConfig(lr=0.1, epochs=epochs, **config), "accuracy"
    )


def test_a_model_enters_its_phases_before_every_epoch() -> None:
    model, _ = two_phases()
    assert model.entered == ["first"] * 8 + ["second"] * 3


def test_a_phase_may_begin_from_the_best_weights_of_those_before() -> None:
    _, short = two_phases(epochs=8)
    model, _ = two_phases()
    assert short.best.epoch < 8  # the last weights would not do
    assert torch.equal(model.at_second["first.weight"], short.weights["first.weight"])


def test_a_frozen_phase_leaves_its_weights_alone() -> None:
    model, _ = two_phases()
    _, result = two_phases(epochs=30)
    assert torch.equal(result.weights["first.weight"], model.at_second["first.weight"])


def test_an_epoch_makes_as_many_steps_as_the_model_gives_losses() -> None:
    data = random_graph()
    torch.manual_seed(0)
    model = TwoPhases(data.num_features, 3, ModelConfig())
    model.enter("first")
    optimiser, losses = adam(model, TrainConfig(lr=0.1)), []
    for loss in model.losses(data.x, data):
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    _, result = two_phases(epochs=8)
    assert result.history[0].loss == sum(losses) / 2


def test_patience_does_not_end_a_training_before_its_last_phase() -> None:
    model, result = two_phases(epochs=40, patience=1)
    assert model.entered[-1] == "second"
    assert len(result.history) < 40


def test_groups_of_parameters_have_their_own_decay() -> None:
    model = TwoPhases(2, 2, ModelConfig())
    groups = adam(model, TrainConfig(weight_decay=0.1)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.2]


def rates(config: TrainConfig) -> list[float]:
    """The rate of every step, as the optimiser had it."""
    data, seen = random_graph(), []
    model = TwoPhases(data.num_features, 3, ModelConfig())
    steps = torch.optim.Adam.step

    def step(self: torch.optim.Adam, closure: None = None) -> None:
        seen.append(self.param_groups[-1]["lr"])
        steps(self, closure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", step)
        fit(model, model.prepare(data), data, config, "accuracy")
    return seen


def test_the_rate_stays_or_falls_by_half_a_cosine() -> None:
    assert set(rates(TrainConfig(lr=0.1, epochs=8))) == {0.1}
    falling = rates(TrainConfig(lr=0.1, epochs=8, schedule="cosine"))[::2]  # two steps an epoch
    assert falling[0] == 0.1
    assert falling[4] == pytest.approx(0.05)
    assert falling[7] == pytest.approx(0.1 * (1 + math.cos(math.pi * 7 / 8)) / 2)
    assert falling == sorted(falling, reverse=True)


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(UserError, match="schedule"):
        resolve("mlp", {"schedule": "linear"})
