"""Exphormer against a plain restatement of its formula, link by link."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.models import create_model
from m3dphormer.models.exphormer import Exphormer
from restated import away_from_the_start, convolve

N, HEADS, HIDDEN = 30, 2, 8


def model_and_graph(**settings: Any) -> tuple[Exphormer, Data]:
    data = random_graph(N)
    data.x = data.x.double()
    torch.manual_seed(0)
    given = {"hidden": HIDDEN, "layers": 2, "heads": HEADS, **settings}
    model = create_model("exphormer", data, **given).double()
    assert isinstance(model, Exphormer)
    return away_from_the_start(model), data


def links(model: Exphormer, data: Data) -> list[tuple[int, int, int]]:
    """(query, key, kind); an edge that is also in the expander is there twice."""
    found = [(u, v, 0) for u, v in data.edge_index.T.tolist()] + [(u, u, 0) for u in range(N)]
    found += [(u, v, 1) for u, v in model.extras(data)["expander_index"].T.tolist()]
    for i in range(model.config.virtual):
        found += [(N + i, u, 2 + 2 * i) for u in range(N)]
        found += [(u, N + i, 3 + 2 * i) for u in range(N)]
    return found


def attention(part: Any, h: Tensor, kinds: Tensor, pairs: list[tuple[int, int, int]]) -> Tensor:
    q, k, v, e = part.query(h), part.key(h), part.value(h), part.kind(kinds)
    clamp, width, out = part.config.clamp, HIDDEN // HEADS, torch.zeros_like(h)
    for head in range(HEADS):
        at = slice(width * head, width * (head + 1))
        for row in range(len(h)):
            own = [(key, kind) for query, key, kind in pairs if query == row]
            scores = torch.stack(
                [(q[row] * k[key] * e[kind])[at].sum() / math.sqrt(width) for key, kind in own]
            )
            values = torch.stack([v[key, at] for key, _ in own])
            powers = (scores.clamp(-5, 5) if clamp else scores).exp()
            out[row, at] = powers @ values / (powers.sum() + 1e-6 * clamp)
    return out


def restated(model: Exphormer, data: Data) -> Tensor:
    h, pairs = model.input_norm(model.input(data.x)).relu(), links(model, data)
    virtual = h[:0] if model.virtual is None else model.virtual
    for layer in model.layers:
        seen = attention(layer.attention, torch.cat([h, virtual]), model.kinds, pairs)
        both = layer.gcn_norm(h + convolve(layer.gcn, h, data)) + layer.attention_norm(h + seen[:N])
        first, _, _, second, _ = layer.wide
        h, virtual = layer.norm(both + second(first(both).relu())), seen[N:]
    return model.classifier(h)


@pytest.mark.parametrize("virtual", [0, 2])
@pytest.mark.parametrize("clamp", [False, True])
def test_the_network_is_the_formula(clamp: bool, virtual: int) -> None:
    model, data = model_and_graph(clamp=clamp, virtual=virtual)
    if clamp:
        with torch.no_grad():
            model.kinds.mul_(20)  # so that some scores are past the limit
    torch.testing.assert_close(model(model.prepare(data)), restated(model, data))


@pytest.mark.parametrize(("scale", "alike"), [(20.0, False), (1e-3, True)])
def test_the_clamp_matters_only_for_scores_past_it(scale: float, alike: bool) -> None:
    model, data = model_and_graph(clamp=False)
    other, _ = model_and_graph(clamp=True)
    with torch.no_grad():
        model.kinds.mul_(scale)
    other.load_state_dict(model.state_dict())
    graph = model.prepare(data)
    assert torch.allclose(model(graph), other(graph), rtol=0, atol=1e-4) == alike


def test_virtual_nodes_get_gradients() -> None:
    model, data = model_and_graph(virtual=2)
    model.loss(model.prepare(data), data).backward()
    assert model.virtual is not None
    assert model.virtual.grad.any(dim=1).all()
    assert model.kinds.grad.any(dim=1).all()
