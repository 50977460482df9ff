"""GCN-MoE against a plain dense restatement of its formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from graphs import dense_adjacency, random_graph
from m3dphormer.errors import UserError
from m3dphormer.models import create_model
from m3dphormer.models.gcn_moe import GCNMoE, Layer, chance_to_be_taken, unevenness


def graph() -> Data:
    data = random_graph(30, 3)
    data.x = data.x.double()
    return data


def model_for(data: Data, **settings: Any) -> GCNMoE:
    torch.manual_seed(0)
    settings = {"hidden": 6, "layers": 3, "dropout": 0.0, **settings}
    model = create_model("gcn-moe", data, **settings).double()
    assert isinstance(model, GCNMoE)
    with torch.no_grad():  # away from the zeros and ones that hide mistakes
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and ("gate" in name or "norm" in name):
                tensor.add_(torch.rand_like(tensor))
    return model


def gates_and_load(layer: Layer, h: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
    """Row by row and expert by expert."""
    n, k = layer.config.experts, layer.config.k
    gates, load = torch.zeros(len(h), n, dtype=h.dtype), torch.zeros(n, dtype=h.dtype)
    clean = h @ layer.gate.clean.weight.T
    spread = (1 + (h @ layer.gate.noise.weight.T).exp()).log() + 0.01
    for u in range(len(h)):
        logits = clean[u] if noise is None else clean[u] + noise[u] * spread[u]
        taken = logits.argsort(descending=True)[:k].tolist()
        for i in taken:
            gates[u, i] = logits[i].exp() / sum(logits[j].exp() for j in taken)
        for i in range(n):
            if noise is None or k == n:
                load[i] += i in taken
                continue
            others = sorted((logits[j].item() for j in range(n) if j != i), reverse=True)
            z = (clean[u, i].item() - others[k - 1]) / spread[u, i].item()
            load[i] += 0.5 * (1 + math.erf(z / math.sqrt(2)))
    return gates, load


def restated(
    model: GCNMoE, data: Data, noises: list[Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, gates and the loss of balance, straight from the formulas."""
    h, a, config = data.x, dense_adjacency(data), model.config
    every, balances = [], []
    for at, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        gates, load = gates_and_load(layer, h, None if noises is None else noises[at])
        out = torch.zeros(len(h), config.hidden, dtype=h.dtype)
        for i in range(config.experts):
            columns = slice(i * config.hidden, (i + 1) * config.hidden)
            z = (a if i < config.one_hop else a @ a) @ (h @ layer.linear.weight[columns].T)
            norm = layer.norm
            if config.norm == "batch":
                mean, var = z.mean(0), z.var(0, correction=0)
                if noises is None:
                    mean, var = norm.running_mean[columns], norm.running_var[columns]
                z = (z - mean) / (var + 1e-5).sqrt() * norm.weight[columns]
            z = z + norm.bias[columns]
            out = out + gates[:, i : i + 1] * z
        h = (out / (config.experts if config.reduce == "mean" else 1)).relu()
        every.append(gates)
        parts = [gates.sum(0), load]
        balances.append(sum(x.var() / x.mean() ** 2 for x in parts))
    if config.head == "linear":
        logits = h @ model.last.weight.T + model.last.bias
    else:
        last = model.last.public
        logits = a @ (h @ last.lin.weight.T) + last.bias
    return logits, torch.stack(every), torch.stack(balances).mean()


SHAPES = [
    {},
    {"reduce": "sum", "norm": "none"},
    {"experts": 3, "k": 1, "one_hop": 3, "norm": "none"},
    {"experts": 5, "k": 5, "one_hop": 0},
    {"head": "linear"},
]


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_output_gates_and_loss_are_those_of_the_formulas(settings: dict[str, Any]) -> None:
    data = graph()
    model = model_for(data, coef=0.3, **settings).eval()
    prepared = model.prepare(data)
    logits, gates, balance = restated(model, data)
    torch.testing.assert_close(model(prepared), logits)
    torch.testing.assert_close(model.gates(prepared), gates)
    at = data.train_mask
    expected = cross_entropy(logits[at], data.y[at]) + 0.3 * balance
    torch.testing.assert_close(model.loss(prepared, data), expected)


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_in_training_the_gate_is_noisy_and_the_load_a_probability(settings: dict[str, Any]) -> None:
    data = graph()
    model = model_for(data, coef=0.3, **settings).train()
    shape = (30, model.config.experts)
    torch.manual_seed(7)
    noises = [torch.randn(shape, dtype=torch.float64) for _ in range(2)]
    logits, _, balance = restated(model, data, noises)
    at = data.train_mask
    torch.manual_seed(7)
    found = model.loss(model.prepare(data), data)
    torch.testing.assert_close(found, cross_entropy(logits[at], data.y[at]) + 0.3 * balance)


def test_the_load_is_how_often_an_expert_is_taken_over_many_draws() -> None:
    torch.manual_seed(0)
    clean, spread = torch.randn(1, 4), torch.rand(1, 4) + 0.5
    draws = clean + spread * torch.randn(100_000, 4)
    taken = draws.argsort(descending=True)[:, :2]
    often = torch.bincount(taken.flatten(), minlength=4) / len(draws)
    chances = chance_to_be_taken(clean.expand_as(draws), draws, spread.expand_as(draws), 2)
    torch.testing.assert_close(chances.mean(0), often, atol=0.01, rtol=0)


def test_unevenness_is_the_squared_coefficient_of_variation() -> None:
    assert float(unevenness(torch.full((4,), 7.0))) == 0
    assert float(unevenness(torch.tensor([1.0, 3.0]))) == pytest.approx(2 / 4)


def test_balance_keeps_the_experts_in_use() -> None:
    """Without it, a start that favours one expert stays one-sided."""
    data = random_graph(200, 3, seed=1)
    used = {}
    for coef in (0.0, 1.0):
        torch.manual_seed(0)
        model = create_model("gcn-moe", data, hidden=8, k=1, coef=coef)
        with torch.no_grad():
            model.layers[0].gate.clean.weight[0] += 3 * data.x.mean(0).sign()
        prepared, optimiser = model.prepare(data), torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(60):
            optimiser.zero_grad()
            model.train().loss(prepared, data).backward()
            optimiser.step()
        used[coef] = unevenness(model.gates(prepared)[0].sum(0)).item()
    assert used[1.0] < 0.5 * used[0.0]


@pytest.mark.parametrize("name", ["k", "one_hop"])
def test_more_than_there_are_experts_is_refused(name: str) -> None:
    words = f"The '{name}' parameter must be at most experts=3. Got 4."
    with pytest.raises(UserError, match=words):
        create_model("gcn-moe", graph(), experts=3, **{name: 4})


def test_gates_are_named_by_hops() -> None:
    model = model_for(graph(), experts=3, one_hop=2)
    assert model.gate_names == ("1hop_1", "1hop_2", "2hop_1")
