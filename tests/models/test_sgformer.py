"""SGFormer against a plain dense restatement of its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.models import create_model
from m3dphormer.models.sgformer import SGFormer
from m3dphormer.training.loop import adam
from m3dphormer.training.settings import TrainConfig
from restated import away_from_the_start, gcn

N, HEADS, ALPHA, RESIDUAL = 30, 3, 0.7, 0.4


def model_and_graph(**settings: Any) -> tuple[SGFormer, Data]:
    data = random_graph(N)
    data.x = data.x.double()
    torch.manual_seed(0)
    given = {"hidden": 8, "layers": 3, "heads": HEADS, "alpha": ALPHA, "residual": RESIDUAL}
    model = create_model("sgformer", data, **given, **settings).double()
    assert isinstance(model, SGFormer)
    return away_from_the_start(model), data


def restated(model: SGFormer, data: Data, plain: bool = False) -> Tensor:
    """All N x N weights of every head."""
    branch = model.attention_branch
    h = branch.input(data.x).relu() if plain else branch.input_norm(branch.input(data.x)).relu()
    q, k, v = branch.query(h), branch.key(h), h.repeat(1, HEADS) if plain else branch.value(h)
    q, k = q / q.pow(2).sum().sqrt(), k / k.pow(2).sum().sqrt()
    heads = []
    for head in range(HEADS):
        at = slice(8 * head, 8 * head + 8)
        weights = torch.eye(N) + q[:, at] @ k[:, at].T / N
        degree = 1 + (q[:, at] @ k[:, at].T).sum(1) / N
        heads.append(weights / degree[:, None] @ v[:, at])
    z = sum(heads) / HEADS
    if not plain:
        z = branch.norm(RESIDUAL * z + (1 - RESIDUAL) * h)
    return model.classifier(ALPHA * gcn(model.gcn, data) + (1 - ALPHA) * z)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("engine", ["ours", "pyg"])
def test_the_network_is_the_formula(engine: str, norm: str, residual: bool) -> None:
    model, data = model_and_graph(norm=norm, engine=engine, gcn_residual=residual)
    torch.testing.assert_close(model(model.prepare(data)), restated(model, data))


def test_plain_attention_has_no_norm_no_projected_value_and_no_residual() -> None:
    model, data = model_and_graph(attention="plain")
    torch.testing.assert_close(model(model.prepare(data)), restated(model, data, plain=True))


def test_the_branches_have_their_own_weight_decays() -> None:
    model, _ = model_and_graph(attention_weight_decay=0.2)
    attention, others = adam(model, TrainConfig(weight_decay=0.1)).param_groups
    assert (attention["weight_decay"], others["weight_decay"]) == (0.2, 0.1)
    assert {id(p) for p in attention["params"]} == {
        id(p) for p in model.attention_branch.parameters()
    }
    total = len(attention["params"]) + len(others["params"])
    assert total == len(list(model.parameters()))
