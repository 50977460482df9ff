"""GPRGNN against a dense restatement of its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.utils import to_dense_adj

from graphs import random_graph
from m3dphormer.models import create_model
from m3dphormer.training.loop import adam
from m3dphormer.training.settings import TrainConfig


@pytest.mark.parametrize("hops", [0, 4])
def test_the_network_is_its_formula(hops: int) -> None:
    data = random_graph()
    data.x = data.x.double()
    model: Any = create_model("gprgnn", data, hops=hops).double().eval()
    with torch.no_grad():
        model.gamma.normal_()
    a = to_dense_adj(data.edge_index, max_num_nodes=60)[0].double() + torch.eye(60).double()
    root = a.sum(1).rsqrt()
    s = root[:, None] * a * root
    first, second = model.network.layers
    z = (data.x @ first.weight.T + first.bias).relu() @ second.weight.T + second.bias
    expected = sum(model.gamma[k] * torch.linalg.matrix_power(s, k) @ z for k in range(hops + 1))
    torch.testing.assert_close(model(model.prepare(data)), expected)


def test_gamma_starts_as_pagerank() -> None:
    model: Any = create_model("gprgnn", random_graph(), alpha=0.3, hops=3)
    torch.testing.assert_close(model.gamma.detach(), torch.tensor([0.3, 0.21, 0.147, 0.343]))


def test_gamma_alone_is_not_decayed() -> None:
    model: Any = create_model("gprgnn", random_graph())
    groups = adam(model, TrainConfig(weight_decay=0.1)).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert decay.pop(id(model.gamma)) == 0
    assert decay == {id(p): 0.1 for p in model.network.parameters()}
