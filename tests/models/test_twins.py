"""``leave_one_out`` against its definition, with every training node left out one by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.scores import DotScores
from m3dphormer.masks import class_members
from m3dphormer.models import create_model
from m3dphormer.models.m3dphormer import M3Dphormer
from m3dphormer.models.m3dphormer_twins import with_twins

N, P, C = 40, 4, 3


def graph() -> Data:
    """One class has a single training node."""
    data = random_graph(N, C)
    data.x = data.x.double()
    last = (data.train_mask & (data.y == 2)).nonzero().squeeze(1)
    data.train_mask[last[1:]] = False
    return data


def model_for(data: Data, **settings: Any) -> M3Dphormer:
    torch.manual_seed(0)
    given: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0, "leave_one_out": True}
    given |= {"hidden": 8, "layers": 3, "clusters": P, **settings}
    model = create_model("m3dphormer", data, **given).double()
    assert isinstance(model, M3Dphormer)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "gate" in name or "norm" in name:
                parameter.add_(torch.randn_like(parameter))
    return model.train()


def heads_of(linear: Any, z: Tensor) -> Tensor:
    return linear(z).view(len(z), 2, -1)


def one_by_one(model: M3Dphormer, data: Data, class_nodes: int, fixed: bool) -> Tensor:
    """Logits of the real nodes: every twin by its own loop, t left out of every sum it is in."""
    inputs = model.prepare(data)
    members = class_members(data, class_nodes)
    trained = (members >= 0).nonzero().squeeze(1).tolist()
    first = N + P
    start, twin = inputs.features.project(model.input), {}
    for t in trained:
        others = [s for s in trained if members[s] == members[t] and s != t]
        mean = data.x[others].mean(0) if others else torch.zeros_like(data.x[0])
        twin[t] = model.input(mean)
    skip = model.config.input == "skip"
    h = start + start.relu() if skip else start
    twin = {t: z + z.relu() if skip else z for t, z in twin.items()}
    states = [h]
    for layer in model.layers:
        local, cluster, wide = layer.experts
        z = layer.norm(h)
        answers = [local(z, inputs.masks[0], None), cluster(z, inputs.masks[1], None)]
        q, k, v = (heads_of(part, z) for part in (wide.query, wide.key, wide.value))
        answer, told = torch.zeros_like(v), {}
        for g in range(class_nodes * C):
            inside = [s for s in trained if members[s] == g]
            if inside:
                scores = (k[inside] * q[first + g]).sum(-1) / 2  # [members, H]
                answer[first + g] = (scores.softmax(0).unsqueeze(2) * v[inside]).sum(0)
            for t in inside:
                rest = [s for s in inside if s != t]
                told[t] = torch.zeros_like(v[0])
                if rest:
                    scores = (k[rest] * q[first + g]).sum(-1) / 2
                    told[t] = (scores.softmax(0).unsqueeze(2) * v[rest]).sum(0)
        for u in range(N):
            keys, values = k[first:].clone(), v[first:].clone()
            if u in twin:
                apart = layer.norm(twin[u].unsqueeze(0))
                keys[members[u]] = heads_of(wide.key, apart)[0]
                values[members[u]] = heads_of(wide.value, apart)[0]
            weights = ((keys * q[u]).sum(-1) / 2).softmax(0)
            answer[u] = (weights.unsqueeze(2) * values).sum(0)
        answers.append(answer.flatten(1))

        def gates(z: Tensor, layer: Any = layer) -> Tensor:
            return layer.router(layer.router.logits(z), z)

        mixing = gates(z).clone()
        if fixed:
            mixing[N : N + P] = torch.tensor([0.0, 1.0, 0.0])
            mixing[first:] = torch.tensor([0.0, 0.0, 1.0])
        mixed = sum(mixing[:, i : i + 1] * one for i, one in enumerate(answers))
        after = {}
        for t in trained:
            share = 1.0 if fixed else gates(layer.norm(twin[t].unsqueeze(0)))[0, 2]
            after[t] = (share * told[t].flatten()).relu() + layer.residual(twin[t])
        h, twin = mixed.relu() + layer.residual(h), after
        states.append(h)
    read = sum(states) if model.config.readout == "sum" else h
    return model.classifier(read)[:N]


@pytest.mark.parametrize("scheme", ["fused", "dual"])
@pytest.mark.parametrize("class_nodes", [1, 2])
@pytest.mark.parametrize("preset", ["official", "paper"])
def test_it_is_its_definition_one_node_at_a_time(
    preset: str, class_nodes: int, scheme: str
) -> None:
    data = graph()
    model = model_for(data, preset=preset, scheme=scheme, class_nodes=class_nodes)
    expected = one_by_one(model, data, class_nodes, fixed=preset == "official")
    torch.testing.assert_close(model(model.prepare(data)), expected, rtol=1e-9, atol=1e-9)


def test_nothing_of_a_training_node_is_in_what_its_twin_starts_from_or_is_told() -> None:
    data = graph()
    model = model_for(data)
    inputs = model.prepare(data)
    twins, total = inputs.twins, inputs.layout.total
    assert twins is not None
    x = data.x.clone().requires_grad_()
    means = [x[data.train_mask & (data.y == c)].mean(0) for c in range(C)]
    z = model.input(torch.cat([x, torch.zeros(P, x.shape[1]), torch.stack(means)]))
    q, k = torch.randn(2, total + len(twins.node), 2, 4, dtype=torch.float64)
    v = torch.randn_like(q).requires_grad_()
    scores = DotScores(q, k)
    out = model.layers[0].experts[2]._attend(scores, v, inputs.masks[2], None)
    start = twins.start(z, model.input.bias, learned=False)
    told = with_twins(scores, v, out, twins, None)[total:]
    for i, t in enumerate(twins.node.tolist()):
        by_start = torch.autograd.grad(start[i].sum(), x, retain_graph=True)[0]
        by_told = torch.autograd.grad(told[i].sum(), v, retain_graph=True)[0]
        assert by_start[t].abs().max() < 1e-12
        assert by_told[t].abs().max() < 1e-12
        others = twins.others[i] > 0
        assert bool(by_start.abs().max() > 1e-3) == bool(by_told.abs().max() > 1e-3) == others


def test_there_are_no_twins_in_evaluation() -> None:
    data = graph()
    model = model_for(data)
    with torch.no_grad():
        trained = model(model.prepare(data))
        evaluated = model.eval()(model.prepare(data))
    plain = model_for(data, leave_one_out=False).eval()
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(evaluated, plain(plain.prepare(data)))
    assert not torch.allclose(trained, evaluated)


def test_batch_norm_counts_the_rows_of_the_network_alone() -> None:
    data = graph()
    model = model_for(data, norm="batch", layers=1)
    seen: list[Tensor] = []
    model.layers[0].register_forward_hook(lambda module, args, out: seen.append(out[0]))
    model.layers[0].norm.reset_parameters()
    model(model.prepare(data))
    rows = N + P + C
    assert len(seen[0]) == rows + int(data.train_mask.sum())
    zeros, ones = torch.zeros(8).double(), torch.ones(8).double()
    torch.testing.assert_close(seen[0][:rows].mean(0), zeros, rtol=0, atol=1e-9)
    torch.testing.assert_close(seen[0][:rows].var(0, correction=0), ones, rtol=0, atol=1e-2)
    assert seen[0][rows:].mean(0).abs().max() > 1e-3


def test_dropout_of_the_class_nodes_weights_is_taken_out_with_them() -> None:
    data = graph()
    model = model_for(data)
    inputs = model.prepare(data)
    twins, drop = inputs.twins, Dropout(0.4, 5, 1)
    assert twins is not None
    total = inputs.layout.total
    q, k, v = torch.randn(3, total + len(twins.node), 2, 4, dtype=torch.float64)
    expert = model.layers[0].experts[2]
    out = expert._attend(DotScores(q, k), v, inputs.masks[2], drop)
    got = with_twins(DotScores(q, k), v, out, twins, drop)
    members = class_members(data)
    for i, t in enumerate(twins.node.tolist()):
        g = inputs.layout.start("classes") + int(members[t])
        rest = [s for s in twins.node.tolist() if members[s] == members[t] and s != t]
        expected = torch.zeros(2, 4, dtype=torch.float64)
        if rest:
            weights = ((k[rest] * q[g]).sum(-1) / 2).softmax(0)
            kept = drop.scale(torch.tensor([g]), torch.tensor(rest), 2)
            expected = ((weights * kept).unsqueeze(2) * v[rest]).sum(0)
        torch.testing.assert_close(got[total + i], expected)
