"""What holds for every registered model, and that a model for which it does not is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import m3dphormer as m3d
from m3dphormer import UserError
from m3dphormer.models import Model, check, list_models, registry
from m3dphormer.models.check import CHECKS, Check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", list_models())
def test_the_contract_holds(name: str, check: Check) -> None:
    check(name)


class Sound(Model):
    """A linear layer: keeps the contract, and is broken below in one way at a time."""

    def __init__(self, features: int, classes: int, config: Any) -> None:
        super().__init__(features, classes, config)
        self.linear = nn.Linear(features, classes)

    def prepare(self, data: Data) -> Data:
        return data

    def forward(self, graph: Data) -> Tensor:
        return self.linear(graph.x)


class Ordered(Sound):
    def forward(self, graph: Data) -> Tensor:
        return self.linear(graph.x) + torch.arange(graph.num_nodes).unsqueeze(1)


class FirstEdge(Sound):
    def forward(self, graph: Data) -> Tensor:
        return self.linear(graph.x) + graph.x[graph.edge_index[0, 0]].sum()


class Idle(Sound):
    def __init__(self, features: int, classes: int, config: Any) -> None:
        super().__init__(features, classes, config)
        self.unused = nn.Parameter(torch.ones(1))


class Leaky(Sound):
    def forward(self, graph: Data) -> Tensor:
        return self.linear(graph.x) + graph.y.unsqueeze(1)


class Moody(Sound):
    def forward(self, graph: Data) -> Tensor:
        return self.linear(graph.x) * (1 + self.training * random.random())


class Restless(Sound):
    def forward(self, graph: Data) -> Tensor:
        return self.linear(graph.x) + torch.rand(1)


class Needy(Sound):
    def forward(self, graph: Data) -> Tensor:
        return self.linear(graph.x) + graph.x[graph.train_mask].sum()


class Forgetful(Sound):
    def __init__(self, features: int, classes: int, config: Any) -> None:
        super().__init__(features, classes, config)
        self.shift = torch.rand(1)

    def forward(self, graph: Data) -> Tensor:
        return self.linear(graph.x) + self.shift


class Sociable(Sound):
    def forward(self, graph: Data) -> Tensor:
        degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
        return self.linear(graph.x) + (degree / degree).unsqueeze(1)


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Model]], None]:
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    return lambda model: m3d.register_model("mine")(model) and None


def test_a_sound_model_passes(register: Callable[[type[Model]], None]) -> None:
    register(Sound)
    before = torch.get_rng_state()
    m3d.check_model("mine")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("model", "check", "words"),
    [
        (Ordered, check.relabelling_the_nodes_permutes_the_logits_and_nothing_else, "relabelling"),
        (Ordered, check.relabelling_holds_in_float32, "relabelling"),
        (FirstEdge, check.the_order_of_edges_does_not_matter, "the order of edges"),
        (Idle, check.every_parameter_gets_a_gradient, "no gradient reaches unused"),
        (Leaky, check.labels_outside_the_training_set_do_not_count, "labels outside"),
        (Moody, check.the_same_seed_gives_the_same_bits_in_training, "the same seed"),
        (Restless, check.evaluation_is_without_chance, "two evaluations differ"),
        (Needy, check.a_graph_without_labels_can_be_predicted, "prediction needs labels by"),
        (Forgetful, check.weights_are_all_there_is_to_save, "saved weights"),
        (Sociable, check.isolated_nodes_and_one_feature_are_served, "isolated nodes"),
    ],
)
def test_a_broken_model_is_found_with_one_line(
    model: type[Model], check: Check, words: str, register: Callable[[type[Model]], None]
) -> None:
    register(model)
    with pytest.raises(AssertionError, match=f"^mine: {words}") as caught:
        check("mine")
    assert "\n" not in str(caught.value)
    with pytest.raises(AssertionError, match=r"^mine: "):
        m3d.check_model("mine")


def test_an_unknown_model_is_the_users_to_know() -> None:
    with pytest.raises(UserError, match="Unknown model 'gnc'"):
        m3d.check_model("gnc")
