"""A last layer for the asked rows alone is the whole layer where these rows are read."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphs import random_graph
from m3dphormer.attention import native, order
from m3dphormer.attention.structure import asked
from m3dphormer.attention.structure.take import fork, take
from m3dphormer.models import create_model

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")


def step(settings: dict[str, Any]) -> tuple[list[Tensor], bool]:
    """Loss and gradients of one training step in float64, and whether rows were asked for."""
    data = random_graph(300, 3, features=8)
    data.x = data.x.double()
    data.train_mask = torch.arange(300) % 3 == 1
    torch.manual_seed(0)
    given = {"hidden": 16, "clusters": 12, "attention_dropout": 0.3, "layers": 3, **settings}
    model = create_model("m3dphormer", data, **given).double().train()
    graph = model.prepare(data)
    torch.manual_seed(1)
    loss = model.loss(graph, data)
    loss.backward()
    return [loss, *(p.grad for p in model.parameters() if p.grad is not None)], "asked" in vars(
        graph
    ) and graph.asked is not None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"residual": "inside"},
        {"ffn": True},
        {"experts": ["c4", "g3"]},
        {"experts": ["l1", "c3", "g2"]},
        {"experts": ["g1", "c4"], "attention_dropout": 0.0},
        {"local_scores": "gcn"},
        {"cluster_scores": "gat", "global_scores": "gat"},
        {"preset": "paper"},
        {"shown_labels": 0.5},
    ],
    ids=str,
)
def test_the_loss_and_its_gradients_are_the_same(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "SMALLEST", 1)
    few, asking = step(settings)
    monkeypatch.setattr(asked, "MOST", 0.0)
    whole, not_asking = step(settings)
    assert asking
    assert not not_asking
    for one, other in zip(few, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_batch_norm_and_other_schemes_take_the_whole_layer() -> None:
    assert not step({"norm": "batch"})[1]
    assert not step({"scheme": "sparse"})[1]
    assert not step({"leave_one_out": True})[1]


@pytest.mark.parametrize("width", [3, 128])
@pytest.mark.parametrize("rows", [[0, 3, 4], [2], [0, 1, 2, 3, 4, 5, 6], [6]])
def test_rows_and_their_gradients(rows: list[int], width: int) -> None:
    x = torch.randn(7, width, dtype=torch.float64, requires_grad=True)
    index, weight = torch.tensor(rows), torch.randn(len(rows), width, dtype=torch.float64)
    (law,) = torch.autograd.grad((x[index] * weight).sum(), x)
    assert torch.equal(take(x, index), x[index])
    assert torch.equal(torch.autograd.grad((take(x, index) * weight).sum(), x)[0], law)
    whole, part = fork(x, index)
    assert torch.equal(part, x[index])
    (both,) = torch.autograd.grad((whole.square()).sum() + (part * weight).sum(), x)
    torch.testing.assert_close(both, 2 * x + law)
