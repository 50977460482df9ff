"""CoBFormer and its loss against a plain dense restatement of its formulas."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.errors import UserError
from m3dphormer.models import create_model
from m3dphormer.models.cobformer import CoBFormer
from m3dphormer.training.loop import adam
from m3dphormer.training.settings import TrainConfig
from restated import away_from_the_start, gcn, softmax_attention

N, P, HEADS = 40, 5, 2


def model_and_graph(**settings: Any) -> tuple[CoBFormer, Data]:
    data = random_graph(N)
    data.x = data.x.double()
    torch.manual_seed(0)
    given = {"hidden": 8, "layers": 2, "heads": HEADS, "clusters": P, **settings}
    model = create_model("cobformer", data, **given).double()
    assert isinstance(model, CoBFormer)
    return away_from_the_start(model), data


def block(part: Any, x: Tensor) -> Tensor:
    """Attention of all rows to all rows, then the feed-forward network."""
    z = part.norm(x)
    seen = softmax_attention(part.query(z), part.key(z), part.value(z), HEADS)
    x = z + part.output(seen)
    norm, _, first, _, second = part.wide
    return x + second(first(norm(x)).relu())


def restated(model: CoBFormer, data: Data) -> Tensor:
    """Cluster by cluster."""
    cluster = model.partition(data)
    x = model.input(data.x).relu()
    for layer in model.layers:
        inside = torch.empty_like(x)
        for p in range(P):
            inside[cluster == p] = block(layer.inside, x[cluster == p])
        means = torch.stack([inside[cluster == p].mean(0) for p in range(P)])
        clusters = block(layer.between, means)
        x = inside + layer.fuse(torch.cat([inside, clusters[cluster]], 1)).relu()
    return model.classifier[1](x)


def test_the_network_is_the_formula() -> None:
    model, data = model_and_graph()
    torch.testing.assert_close(model(model.prepare(data)), restated(model, data))


def test_either_branch_may_predict() -> None:
    model, data = model_and_graph(answer="gcn")
    torch.testing.assert_close(model(model.prepare(data)), gcn(model.gcn, data))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_the_loss_is_the_formula(norm: str, residual: bool) -> None:
    alpha, tau = 0.7, 0.3
    model, data = model_and_graph(norm=norm, gcn_residual=residual, alpha=alpha, tau=tau)
    one, other = gcn(model.gcn, data), restated(model, data)
    labels, opinions = [], []
    for node in range(N):
        if data.train_mask[node]:
            y = data.y[node]
            labels.append(-one[node].log_softmax(0)[y] - other[node].log_softmax(0)[y])
        else:
            z, w = tau * one[node], tau * other[node]
            there = -(w.softmax(0) * z.log_softmax(0)).sum()
            back = -(z.softmax(0) * w.log_softmax(0)).sum()
            opinions.append(there + back)
    expected = alpha * torch.stack(labels).mean() + (1 - alpha) * torch.stack(opinions).mean()
    torch.testing.assert_close(model.loss(model.prepare(data), data), expected)


def test_each_branch_teaches_and_learns() -> None:
    model, data = model_and_graph(alpha=0.0)  # no labels at all
    model.loss(model.prepare(data), data).backward()
    assert all(parameter.grad.any() for parameter in model.parameters())


def test_the_branches_have_their_own_weight_decays() -> None:
    model, _ = model_and_graph(gcn_weight_decay=0.2)
    attention, local = adam(model, TrainConfig(weight_decay=0.1)).param_groups
    assert (attention["weight_decay"], local["weight_decay"]) == (0.1, 0.2)
    assert {id(p) for p in local["params"]} == {id(p) for p in model.gcn.parameters()}
    assert len(attention["params"]) + len(local["params"]) == len(list(model.parameters()))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(UserError, match="'heads' parameter must divide hidden=8"):
        model_and_graph(heads=3)
