"""GCN, GraphSAGE, GAT and their tuned forms against dense restatements of their formulas."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, layer_norm, leaky_relu
from torch_geometric.data import Data
from torch_geometric.nn import models as pyg
from torch_geometric.utils import to_dense_adj

from graphs import random_graph
from m3dphormer.errors import UserError
from m3dphormer.models import Model, create_model

N, C = 40, 3
FAMILIES = ("gcn", "sage", "gat")
TUNED = ("gcn*", "sage*", "gat*")


def graph() -> Data:
    data = random_graph(N, C)
    data.x = data.x.double()
    return data


def model_for(name: str, data: Data, **settings: Any) -> Model:
    torch.manual_seed(0)
    given = {"hidden": 8, "layers": 3, **settings}
    if name.startswith("gat"):
        given.setdefault("heads", 2)
    model = create_model(name, data, **given).double()
    with torch.no_grad():  # away from the zeros and ones that hide mistakes
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return model.eval()


def convolution(conv: Any, h: Tensor, a: Tensor, loops: bool) -> Tensor:
    """One layer of PyG's weights, from the formula of its paper."""
    eye = torch.eye(N).double()
    if type(conv).__name__ == "GCNConv":
        root = (a + eye).sum(1).rsqrt()
        return (root[:, None] * (a + eye) * root) @ h @ conv.lin.weight.T + conv.bias
    if type(conv).__name__ == "SAGEConv":
        beside = a + eye if loops else a
        mean = beside @ h / beside.sum(1, keepdim=True).clamp(min=1)
        return mean @ conv.lin_l.weight.T + conv.lin_l.bias + h @ conv.lin_r.weight.T
    heads, width = conv.heads, conv.out_channels
    answers = []
    for i in range(heads):
        z = h @ conv.lin.weight[i * width : (i + 1) * width].T
        target, source = z @ conv.att_dst[0, i], z @ conv.att_src[0, i]
        scores = leaky_relu(target[:, None] + source[None, :], 0.2)
        answers.append(scores.masked_fill(a + eye == 0, -torch.inf).softmax(1) @ z)
    out = torch.cat(answers, 1) if conv.concat else sum(answers) / heads
    return out if conv.bias is None else out + conv.bias


def plain(model: Any, data: Data) -> Tensor:
    a, h = to_dense_adj(data.edge_index, max_num_nodes=N)[0].double(), data.x
    for i, layer in enumerate(model.layers):
        h = convolution(layer.public, h, a, loops=False)
        if i < len(model.layers) - 1:
            h = h.relu()
    return h


def tuned(model: Any, data: Data) -> Tensor:
    config = model.config
    a, h = to_dense_adj(data.edge_index, max_num_nodes=N)[0].double(), data.x
    if config.pre_linear:
        h = h @ model.input.weight.T + model.input.bias
    states = []
    for layer in model.layers:
        out = convolution(layer.convolution.public, h, a, loops=True)
        if config.residual:
            out = out + h @ layer.residual.weight.T + layer.residual.bias
        norm = layer.norm
        if config.norm == "layer":
            out = layer_norm(out, (8,), norm.weight, norm.bias)
        if config.norm == "batch":
            out = batch_norm(out, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        h = out.relu()
        states.append(h)
    read = sum(states) if config.jumping else h
    return read @ model.classifier.weight.T + model.classifier.bias


@pytest.mark.parametrize("engine", ["ours", "pyg"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_plain_network_is_its_formula(name: str, layers: int, engine: str) -> None:
    data = graph()
    model = model_for(name, data, layers=layers, engine=engine)
    torch.testing.assert_close(model(model.prepare(data)), plain(model, data))


@pytest.mark.parametrize("engine", ["ours", "pyg"])
@pytest.mark.parametrize("norm", ["none", "layer", "batch"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("name", TUNED)
def test_a_tuned_network_is_its_formula(name: str, residual: bool, norm: str, engine: str) -> None:
    data = graph()
    for pre_linear, jumping in itertools.product([False, True], repeat=2):
        switches = {"pre_linear": pre_linear, "jumping": jumping}
        model = model_for(name, data, residual=residual, norm=norm, engine=engine, **switches)
        torch.testing.assert_close(model(model.prepare(data)), tuned(model, data))


@pytest.mark.parametrize(
    ("name", "public"), [("gcn", pyg.GCN), ("sage", pyg.GraphSAGE), ("gat", pyg.GAT)]
)
def test_a_plain_network_is_that_of_pyg_with_the_same_weights(name: str, public: Any) -> None:
    data = graph()
    model: Any = model_for(name, data)
    options = {"heads": 2} if name == "gat" else {}
    other = public(data.num_features, 8, 3, C, dropout=0.5, **options).double().eval()
    for layer, conv in zip(model.layers, other.convs, strict=True):
        conv.load_state_dict(layer.public.state_dict())
    found, expected = model(model.prepare(data)), other(data.x, data.edge_index)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", [*FAMILIES, *TUNED])
def test_our_engine_has_the_gradients_of_pyg(name: str, sparse: bool) -> None:
    data = graph()
    if sparse:
        data.x = torch.zeros(N, 200).double()
        data.x[torch.arange(N), torch.arange(N) * 3] = 1.0
    losses, grads = [], []
    for engine in ("ours", "pyg"):
        model = model_for(name, data, dropout=0.0, engine=engine).train()
        losses.append(model.loss(model.prepare(data), data))
        grads.append(torch.autograd.grad(losses[-1], list(model.parameters())))
    torch.testing.assert_close(*losses)
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", [*FAMILIES, *TUNED])
def test_dropout_acts_in_training_alone(name: str) -> None:
    data = graph()
    model = model_for(name, data)
    prepared = model.prepare(data)
    still = model(prepared)
    assert not torch.allclose(model.train()(prepared), model(prepared))
    assert torch.equal(model.eval()(prepared), still)


def test_attention_itself_is_dropped_in_gat_but_not_in_its_tuned_form() -> None:
    data = graph()
    for name, dropped in (("gat", True), ("gat*", False)):
        model = model_for(name, data, dropout=0.5, layers=1).train()
        conv: Any = model.layers[0] if dropped else model.layers[0].convolution  # type: ignore
        around = model.prepare(data).around
        same = torch.equal(conv(data.x, around), conv(data.x, around))
        assert same != dropped


@pytest.mark.parametrize("name", ["gat", "gat*"])
def test_heads_share_the_width(name: str) -> None:
    with pytest.raises(UserError, match=r"'heads' parameter must divide hidden=8\. Got 3"):
        model_for(name, graph(), heads=3)
