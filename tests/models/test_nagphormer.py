"""NAGphormer against a plain restatement of its formula, one node at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, gelu
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.models import create_model, nagphormer
from m3dphormer.models.nagphormer import NAGphormer
from restated import away_from_the_start, dense_adjacency, softmax_attention

N, HOPS, HEADS = 30, 4, 2


def model_and_graph(**settings: Any) -> tuple[NAGphormer, Data]:
    data = random_graph(N)
    data.x = data.x.double()
    torch.manual_seed(0)
    settings = {"hidden": 8, "layers": 2, "heads": HEADS, "hops": HOPS, "encodings": 2, **settings}
    model = create_model("nagphormer", data, **settings).double()
    assert isinstance(model, NAGphormer)
    return away_from_the_start(model), data


def restated(model: NAGphormer, data: Data) -> Tensor:
    adjacency = dense_adjacency(data)
    features = torch.cat([data.x, model.extras(data)["encoding"].double()], 1)
    hops = [torch.linalg.matrix_power(adjacency, k) @ features for k in range(HOPS + 1)]
    logits = []
    for node in range(N):
        x = model.input(torch.stack([hop[node] for hop in hops]))
        for layer in model.layers:
            z = layer.attention_norm(x)
            seen = softmax_attention(layer.query(z), layer.key(z), layer.value(z), HEADS)
            x = x + layer.output(seen)
            first, _, second = layer.wide
            x = x + second(gelu(first(layer.forward_norm(x))))
        h = model.norm(x)
        w = torch.randn(2 * 8, dtype=torch.double)  # w [h_0, h_k], the first half of it cancels
        w[8:] = model.readout.weight[0]
        scores = torch.stack([w @ torch.cat([h[0], h[k]]) for k in range(1, HOPS + 1)])
        state = h[0] + scores.softmax(0) @ h[1:]
        first, _, second = model.classifier
        logits.append(second(first(state).relu()))
    return torch.stack(logits)


@pytest.fixture(params=[0, 256], ids=["wide", "narrow"])
def _width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that are projected first, and tokens that are kept."""
    monkeypatch.setattr(nagphormer, "NARROW", request.param)


pytestmark = pytest.mark.usefixtures("_width")


def test_the_network_is_the_formula() -> None:
    model, data = model_and_graph()
    torch.testing.assert_close(model(model.prepare(data)), restated(model, data))


def test_chunks_do_not_matter() -> None:
    model, data = model_and_graph()
    small, _ = model_and_graph(batch=7)
    small.load_state_dict(model.state_dict())
    graph = model.prepare(data)
    torch.testing.assert_close(small(graph), model(graph), rtol=0, atol=1e-12)


def test_an_epoch_takes_every_training_node_once_in_random_order() -> None:
    model, data = model_and_graph(batch=7, dropout=0.0, attention_dropout=0.0)
    graph, train = model.prepare(data), data.train_mask
    seen: list[Tensor] = []
    model.register_forward_pre_hook(lambda *_: pytest.fail("a step looks at all nodes"))
    model.layers.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    epochs = [list(model.losses(graph, data)) for _ in range(2)]
    sizes = [len(batch) for batch in seen[: len(epochs[0])]]
    assert sum(sizes) == train.sum()
    assert max(sizes) == 7
    assert not torch.equal(seen[0], seen[len(epochs[0])])
    whole = cross_entropy(restated(model, data)[train], data.y[train])
    shares = torch.tensor(sizes) / sum(sizes)
    torch.testing.assert_close((torch.stack(epochs[0]) * shares).sum(), whole)


def test_encodings_of_a_graph_too_small_for_them_are_zeros() -> None:
    model, data = model_and_graph(encodings=40)
    encoding = model.extras(data)["encoding"]
    assert encoding.shape == (N, 40)
    assert not encoding[:, N:].any()
    assert torch.isfinite(model(model.prepare(data))).all()


def test_weights_start_small_and_biases_at_zero() -> None:
    torch.manual_seed(0)
    model = create_model("nagphormer", random_graph(N), hidden=64, layers=4)
    for part in model.modules():
        if isinstance(part, torch.nn.Linear) and part.weight.numel() > 1000:
            assert part.weight.std().item() == pytest.approx(0.02 / 2, rel=0.1)
            assert part.bias is None or not part.bias.any()
