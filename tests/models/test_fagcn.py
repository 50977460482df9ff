"""FAGCN against a dense restatement of its formula, and our engine against PyG's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from graphs import random_graph
from m3dphormer.models import create_model


def made(**settings: Any) -> tuple[Any, Data]:
    data = random_graph()
    data.x = data.x.double()
    torch.manual_seed(0)
    return create_model("fagcn", data, hidden=8, layers=3, **settings).double(), data


@pytest.mark.parametrize("engine", ["ours", "pyg"])
@pytest.mark.parametrize("eps", [0.0, 0.3])
def test_the_network_is_its_formula(eps: float, engine: str) -> None:
    model, data = made(eps=eps, engine=engine)
    a = to_dense_adj(data.edge_index, max_num_nodes=60)[0].double()
    degree = a.sum(1)
    root = torch.where(degree > 0, degree.rsqrt(), 0.0)
    h = first = (data.x @ model.input.weight.T + model.input.bias).relu()
    for layer in model.layers:
        own, beside = layer.public.att_r.weight[0], layer.public.att_l.weight[0]
        sign = ((h @ own)[:, None] + (h @ beside)[None, :]).tanh()
        h = eps * first + (sign * root[:, None] * a * root) @ h
    expected = h @ model.classifier.weight.T + model.classifier.bias
    torch.testing.assert_close(model.eval()(model.prepare(data)), expected)


def test_our_engine_has_the_gradients_of_pyg() -> None:
    grads = []
    for engine in ("ours", "pyg"):
        model, data = made(dropout=0.0, engine=engine)
        loss = model.train().loss(model.prepare(data), data)
        grads.append(torch.autograd.grad(loss, list(model.parameters())))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


def test_weights_start_xavier_normal_with_gain() -> None:
    torch.manual_seed(0)
    model: Any = create_model("fagcn", random_graph(features=50), hidden=300, layers=1)
    wide, gate = model.input.weight, model.layers[0].public.att_l.weight
    assert wide.std().item() == pytest.approx(1.414 * math.sqrt(2 / 350), rel=0.05)
    assert gate.std().item() == pytest.approx(1.414 * math.sqrt(2 / 601), rel=0.15)
