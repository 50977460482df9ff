"""PolyNormer in both phases against a plain dense restatement of its formulas."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.models import create_model
from m3dphormer.models.polynormer import Polynormer
from m3dphormer.training.loop import fit
from m3dphormer.training.settings import TrainConfig
from restated import away_from_the_start, dense_adjacency

N, HEADS, HIDDEN = 30, 2, 4


def model_and_graph(dtype: torch.dtype = torch.double, **settings: Any) -> tuple[Polynormer, Data]:
    data = random_graph(N)
    data.x = data.x.to(dtype)
    torch.manual_seed(0)
    given = {"hidden": HIDDEN, "heads": HEADS, "layers": 3, "global_layers": 2, **settings}
    model = create_model("polynormer", data, **given).to(dtype)
    assert isinstance(model, Polynormer)
    return model, data


def head_slices() -> list[slice]:
    return [slice(HIDDEN * h, HIDDEN * (h + 1)) for h in range(HEADS)]


def gat(layer: Any, x: Tensor, seen: Tensor) -> Tensor:
    conv = layer.gat.public
    v, out = x @ conv.lin.weight.T, []
    for h, at in enumerate(head_slices()):
        a, b = v[:, at] @ conv.att_dst[0, h], v[:, at] @ conv.att_src[0, h]
        scores = leaky_relu(a[:, None] + b[None, :], 0.2).masked_fill(~seen, -torch.inf)
        out.append(scores.softmax(1) @ v[:, at])
    return torch.cat(out, 1)


def weight(beta: Any, start: float) -> Tensor:
    return beta.weight if start >= 0 else torch.sigmoid(beta.weight)


def restated(model: Polynormer, data: Data, phase: str, start: float) -> Tensor:
    seen = dense_adjacency(data) > 0
    x, total = model.input(data.x), torch.zeros(N, HEADS * HIDDEN)
    for layer in model.local_layers:
        h, b = layer.factor(x).relu(), weight(layer.beta, start)
        x = (gat(layer, x, seen) + layer.own(x)).relu()
        x = (1 - b) * layer.norm(h * x) + b * x
        total = total + x
    if phase == "local":
        return model.local_classifier(total)
    x = model.norm(total)
    for layer in model.global_layers:
        s, v, out = layer.key(x).sigmoid(), layer.value(x), []
        for at in head_slices():
            weights = s[:, at] @ s[:, at].T
            out.append(weights / weights.sum(1, keepdim=True) @ v[:, at])
        x = layer.norm(torch.cat(out, 1)) * (layer.factor(x) + weight(layer.beta, start))
        x = model.output[0](x).relu()
    return model.global_classifier(x)


@pytest.mark.parametrize("beta", [0.9, -1])
@pytest.mark.parametrize("engine", ["ours", "pyg"])
@pytest.mark.parametrize("phase", ["local", "global"])
def test_the_network_is_the_formula(phase: str, engine: str, beta: float) -> None:
    model, data = model_and_graph(engine=engine, beta=beta)
    away_from_the_start(model).enter(phase)
    expected = restated(model, data, phase, beta)
    torch.testing.assert_close(model(model.prepare(data)), expected)


@pytest.mark.parametrize(("beta", "first"), [(0.9, 0.9), (0.0, 0.0), (-1, 0.5)])
def test_beta_starts_where_it_is_told_to(beta: float, first: float) -> None:
    model, _ = model_and_graph(beta=beta)
    start = model.local_layers[0].beta()
    torch.testing.assert_close(start, torch.full_like(start, first))


def test_the_local_phase_is_at_most_half() -> None:
    model, _ = model_and_graph(local_epochs=30)
    assert [(p.name, p.epochs, p.from_best) for p in model.phases(100)] == [
        ("local", 30, False),
        ("global", 70, True),
    ]
    assert [p.epochs for p in model.phases(40)] == [20, 20]


def test_the_phase_is_kept_with_the_weights() -> None:
    model, data = model_and_graph(torch.float32, local_epochs=20)
    graph = model.prepare(data)
    result = fit(model, graph, data, TrainConfig(lr=0.01, epochs=40), "accuracy")
    assert bool(result.weights["everywhere"]) == (result.best.epoch > 20)
    again, _ = model_and_graph(torch.float32, local_epochs=20)
    again.enter("local" if result.best.epoch > 20 else "global")
    again.load_state_dict(result.weights)
    assert torch.equal(again.eval()(graph), model(graph))


def test_the_global_phase_leaves_the_local_classifier_alone() -> None:
    model, data = model_and_graph(torch.float32, local_epochs=0)
    before = model.local_classifier.weight.clone()
    fit(model, model.prepare(data), data, TrainConfig(lr=0.01, epochs=5), "accuracy")
    assert torch.equal(model.local_classifier.weight, before)
