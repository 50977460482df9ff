"""Mowst against a plain dense restatement of its formulas, and its phases."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, cross_entropy
from torch_geometric.data import Data

from graphs import dense_adjacency, random_graph
from m3dphormer.models import create_model
from m3dphormer.models.mowst import Mowst, Stack, dispersion
from m3dphormer.training.loop import adam, fit
from m3dphormer.training.settings import TrainConfig


def graph() -> Data:
    data = random_graph(30, 3)
    data.x = data.x.double()
    return data


def model_for(data: Data, **settings: Any) -> Mowst:
    torch.manual_seed(0)
    settings = {"hidden": 8, "layers": 3, "dropout": 0.0, **settings}
    model = create_model("mowst", data, **settings).double()
    assert isinstance(model, Mowst)
    with torch.no_grad():  # away from the zeros and ones that hide mistakes
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.add_(torch.rand_like(tensor) * ("norm" in name or "bias" in name))
    return model


def stacked(stack: Stack, h: Tensor, a: Tensor, training: bool) -> Tensor:
    """Linear, propagation, norm, ReLU; the last one a linear map with a bias."""
    *hidden, last = [linear.weight for linear in stack.linears]
    for weight, norm in zip(hidden, stack.norms, strict=True):
        z = a @ (h @ weight.T)
        if training:
            z = (z - z.mean(0)) / (z.var(0, correction=0) + 1e-5).sqrt()
            h = (z * norm.weight + norm.bias).relu()
        else:
            given = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
            h = batch_norm(z, *given).relu()
    return a @ (h @ last.T) + stack.bias


def parts(model: Mowst, data: Data, training: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of both experts and g, [N, 1]."""
    nothing = torch.eye(data.num_nodes, dtype=torch.float64)
    weak = stacked(model.weak, data.x, nothing, training)
    strong = stacked(model.strong, data.x, dense_adjacency(data), training)
    p = weak.softmax(1)
    uniform = 1 / 3
    variance = ((p - uniform) ** 2).mean(1) / (((1 - uniform) ** 2 + 2 * uniform**2) / 3)
    certainty = 1 - (-(p * p.log()).sum(1)) / torch.log(torch.tensor(3.0, dtype=torch.float64))
    seen = torch.stack([variance, certainty], 1).detach()
    if model.config.gate_features:
        seen = torch.cat([seen, data.x], 1)
    return weak, strong, torch.sigmoid(stacked(model.gate, seen, nothing, training))


@pytest.mark.parametrize("features", [False, True])
def test_the_joint_variant_mixes_logits_in_output_and_loss(features: bool) -> None:
    data = graph()
    model = model_for(data, gate_features=features).eval()
    weak, strong, g = parts(model, data)
    torch.testing.assert_close(model(model.prepare(data)), g * weak + (1 - g) * strong)
    model.train()
    weak, strong, g = parts(model, data, training=True)
    at = data.train_mask
    mixed = cross_entropy((g * weak + (1 - g) * strong)[at], data.y[at])
    torch.testing.assert_close(model.loss(model.prepare(data), data), mixed)


def test_the_alternating_variant_mixes_probabilities_and_losses() -> None:
    data = graph()
    model = model_for(data, variant="alternating").eval()
    weak, strong, g = parts(model, data)
    mixed = g * weak.softmax(1) + (1 - g) * strong.softmax(1)
    torch.testing.assert_close(model(model.prepare(data)).exp(), mixed)
    at, y = data.train_mask, data.y
    losses = [-z.log_softmax(1)[torch.arange(len(y)), y] for z in (weak, strong)]
    expected = (g[:, 0] * losses[0] + (1 - g[:, 0]) * losses[1])[at].mean()
    torch.testing.assert_close(model.loss(model.prepare(data), data), expected)


def test_the_gradient_is_that_of_the_dense_form() -> None:
    data = graph()
    model = model_for(data).train()
    weak, strong, g = parts(model, data, training=True)
    mixed = (g * weak + (1 - g) * strong)[data.train_mask]
    weights = [*model.parameters()]
    expected = torch.autograd.grad(cross_entropy(mixed, data.y[data.train_mask]), weights)
    found = torch.autograd.grad(model.loss(model.prepare(data), data), weights)
    torch.testing.assert_close(found, expected)


def test_dispersion_is_0_where_uniform_and_1_where_certain() -> None:
    rows = dispersion(torch.tensor([[0.0, 0.0, 0.0], [0.0, 500.0, 0.0]], dtype=torch.float64))
    expected = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(rows, expected)


def test_in_pretraining_the_strong_expert_answers_and_learns_alone() -> None:
    data = graph()
    model = model_for(data, pretrain=5)
    model.enter("pretrain")
    prepared = model.prepare(data)
    adjacency = dense_adjacency(data)
    strong = stacked(model.strong, data.x, adjacency, training=False)
    torch.testing.assert_close(model.eval()(prepared), strong)
    assert model.gates(prepared)[0].T.tolist() == [[0.0] * 30, [1.0] * 30]
    model.train().loss(prepared, data).backward()
    assert {n.split(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {
        "strong"
    }


def test_gates_are_the_shares_of_the_mixture() -> None:
    data = graph()
    model = model_for(data).eval()
    g = parts(model, data)[2]
    expected = torch.cat([g, 1 - g], 1).unsqueeze(0)
    torch.testing.assert_close(model.gates(model.prepare(data)), expected)


@pytest.mark.parametrize(("phase", "frozen"), [("weak", "strong"), ("strong", "weak")])
def test_the_side_without_a_turn_stays_as_in_evaluation(phase: str, frozen: str) -> None:
    data = graph()
    model = model_for(data, variant="alternating", dropout=0.5)
    model.enter(phase)
    model.train()
    prepared, optimiser = model.prepare(data), adam(model, TrainConfig(lr=0.1))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.loss(prepared, data).backward()
    optimiser.step()
    kept = {n.split(".")[0] for n, t in model.state_dict().items() if torch.equal(t, before[n])}
    moved = {n.split(".")[0] for n, t in model.state_dict().items() if not t.equal(before[n])}
    assert frozen in kept - moved  # running means of its norms too
    assert moved == ({"weak", "gate"} if phase == "weak" else {"strong"})


def test_phases_are_a_pretraining_then_all_together_or_turns() -> None:
    data = graph()
    joint = model_for(data, pretrain=50).phases(200)
    assert [(p.name, p.epochs, p.from_best) for p in joint] == [
        ("pretrain", 50, False),
        ("joint", 150, True),
    ]
    assert [p.epochs for p in model_for(data, pretrain=50).phases(10)] == [5, 5]
    assert [p.epochs for p in model_for(data, pretrain=0).phases(10)] == [10]
    turns = model_for(data, variant="alternating", pretrain=4, turn=3).phases(12)
    assert [(p.name, p.from_best) for p in turns] == [
        ("pretrain", False),
        ("weak", True),
        ("strong", False),
        ("weak", False),
    ]
    assert [p.epochs for p in turns] == [4, 3, 3, 3]


@pytest.mark.parametrize("variant", ["joint", "alternating"])
def test_it_learns_and_keeps_what_it_was_scored_with(variant: str) -> None:
    data = random_graph()
    torch.manual_seed(0)
    model = create_model("mowst", data, hidden=8, variant=variant, pretrain=5, turn=4)
    prepared = model.prepare(data)
    result = fit(model, prepared, data, TrainConfig(lr=0.01, epochs=60), "accuracy")
    assert result.history[-1].train > result.history[0].train + 0.2
    found = model(prepared).softmax(1).detach().numpy()
    assert (found == result.probabilities).all()
