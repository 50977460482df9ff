"""Each ablation is what its line says, and keeps every contract of a model in every scheme."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, leaky_relu
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.attention import SCHEMES
from m3dphormer.errors import UserError
from m3dphormer.models import create_model, registry
from m3dphormer.models.check import CHECKS, Check
from m3dphormer.models.m3dphormer import M3Dphormer
from m3dphormer.models.m3dphormer_chance import Chance
from m3dphormer.models.m3dphormer_config import M3DphormerConfig

N, P, C = 60, 6, 3
SWITCHES: dict[str, dict[str, Any]] = {
    "without routing": {"routing": "uniform"},
    "without bi-level": {"routing": "softmax"},
    "without local": {"experts": ("c4", "g3")},
    "without cluster": {"experts": ("l2", "g3")},
    "without global": {"experts": ("l2", "c4")},
    "residual inside": {"residual": "inside"},
    "residual inside, batch": {"residual": "inside", "norm": "batch"},
    "shared": {"shared": True, "residual": "inside", "norm": "batch"},
    "shared, ffn": {"shared": True, "residual": "inside", "norm": "batch", "ffn": True},
    "ffn": {"ffn": True},
    "ffn, batch": {"ffn": True, "norm": "batch"},
    "local gcn": {"local_scores": "gcn"},
    "local dot": {"local_scores": "dot"},
    "cluster gat": {"cluster_scores": "gat"},
    "global gat": {"global_scores": "gat"},
    "leave one out": {"leave_one_out": True},
    "learned": {"class_features": "learned"},
    "three": {"class_nodes": 3},
    "shown labels": {"shown_labels": 0.5},
    "hidden features": {"hidden_features": 0.5},
    "all": {
        "leave_one_out": True,
        "shown_labels": 0.3,
        "hidden_features": 0.3,
        "class_features": "learned",
        "class_nodes": 2,
        "ffn": True,
        "local_scores": "gcn",
        "global_scores": "gat",
    },
}


def graph() -> Data:
    data = random_graph(N, C)
    data.x = data.x.double()
    return data


def model_for(data: Data, **settings: Any) -> M3Dphormer:
    torch.manual_seed(0)
    model = create_model("m3dphormer", data, hidden=8, clusters=P, **settings).double()
    assert isinstance(model, M3Dphormer)
    with torch.no_grad():  # away from the zeros and ones that hide mistakes
        for name, parameter in model.named_parameters():
            if "gate" in name or "norm" in name:
                parameter.add_(torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("switch", SWITCHES)
def test_the_contract_holds(switch: str, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ablated(M3Dphormer):
        def __init__(self, features: int, classes: int, config: M3DphormerConfig) -> None:
            super().__init__(features, classes, replace(config, **SWITCHES[switch]))

    monkeypatch.setitem(registry._MODELS, "ablated", Ablated)
    check("ablated")


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name != "fused"])
@pytest.mark.parametrize("switch", SWITCHES)
def test_every_scheme_gives_the_same_loss_and_gradients(switch: str, scheme: str) -> None:
    data = graph()

    def step(scheme: str) -> list[Tensor]:
        model = model_for(data, scheme=scheme, **SWITCHES[switch]).train()
        torch.manual_seed(1)
        loss = model.loss(model.prepare(data), data)
        loss.backward()
        return [loss, *(p.grad for p in model.parameters() if p.grad is not None)]

    for one, other in zip(step(scheme), step("fused"), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def one_layer(model: M3Dphormer, data: Data) -> tuple[Any, Tensor, Tensor]:
    """The first layer, what it reads and what it gives, in evaluation."""
    inputs = model.prepare(data)
    states = model.states(inputs).states
    return model.layers[0], states[0], states[1]


@pytest.mark.parametrize("norm", ["rms", "batch"])
def test_a_residual_inside_is_rectified_with_the_experts(norm: str) -> None:
    data = graph()
    model = model_for(data, residual="inside", norm=norm)
    layer, h, after = one_layer(model, data)
    graphed = model.prepare(data)
    z = layer.norm(h) if norm == "rms" else h
    answers = [
        expert(z, mask, None) for expert, mask in zip(layer.experts, graphed.masks, strict=True)
    ]
    gates = layer.router(layer.router.logits(z), h)
    gates = torch.cat([gates[:N], graphed.fixed_gates()])
    total = (gates[:, :, None] * torch.stack(answers, dim=1)).sum(1) + layer.residual(h)
    law = (total if norm == "rms" else layer.norm(total)).relu()
    torch.testing.assert_close(after, law, rtol=1e-9, atol=1e-10)


def test_shared_layers_have_only_their_norms_for_themselves() -> None:
    def weights(layers: int) -> int:
        model = model_for(graph(), shared=True, layers=layers)
        assert all(layer.experts is model.layers[0].experts for layer in model.layers)
        return sum(weight.numel() for weight in model.parameters())

    assert weights(4) - weights(1) == 3 * 2 * 8  # weight and bias of RMSNorm


@pytest.mark.parametrize("norm", ["rms", "batch"])
def test_the_ffn_is_a_block_after_the_layer(norm: str) -> None:
    data = graph()
    model = model_for(data, ffn=True, norm=norm)
    layer, h, after = one_layer(model, data)
    block, layer.ffn = layer.ffn, None
    before = layer(h, model.prepare(data), Chance(0, model.config, training=False), 0)[0]
    assert (block.up.out_features, block.down.in_features) == (32, 32)
    if norm == "rms":
        z = before / (before.pow(2).mean(1, keepdim=True) + 1e-6).sqrt()
        z = z * block.norm.weight + block.norm.bias
        expected = before + block.down(block.up(z).relu())
    else:
        mixed = before * (1 + 1e-5) ** 0.5 - layer.norm.bias * (1 + 1e-5) ** 0.5
        mixed = mixed / layer.norm.weight  # fresh running statistics: mean 0, variance 1
        expected = layer.norm(mixed + block.down(block.up(mixed).relu()))
    torch.testing.assert_close(after, expected)


@pytest.mark.parametrize(
    ("settings", "expert"),
    [
        ({"local_scores": "dot"}, 0),
        ({"local_scores": "gcn"}, 0),
        ({"local_scores": "gat"}, 0),
        ({"cluster_scores": "gat"}, 1),
        ({"global_scores": "gat", "local_values": "shared"}, 2),
    ],
)
def test_experts_score_as_they_are_told(settings: dict[str, Any], expert: int) -> None:
    data = graph()
    model = model_for(data, scheme="sparse", **settings)
    inputs = model.prepare(data)
    one, seen = model.layers[0].experts[expert], inputs.masks[expert].to_dense()
    z = torch.randn(N + P + C, 8, dtype=torch.float64)
    heads = []
    for at in (slice(0, 4), slice(4, 8)):
        if one.kind == "gcn":
            degree = seen.sum(1).double().clamp(min=1)
            weights = seen / (degree[:, None] * degree[None, :]).sqrt()
        else:
            if one.kind == "gat":
                s = (one.score or one.value)(z)[:, at]
                head = at.start // 4
                scores = leaky_relu(
                    (s @ one.score_query[head])[:, None] + (s @ one.score_key[head])[None, :], 0.2
                )
            else:
                scores = one.query(z)[:, at] @ one.key(z)[:, at].T / 2
            weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0.0)
        heads.append(weights @ one.value(z)[:, at])
    torch.testing.assert_close(one(z, inputs.masks[expert], None), torch.cat(heads, 1))


def test_a_gcn_expert_learns_values_alone() -> None:
    names = dict(model_for(graph(), local_scores="gcn").layers[0].experts[0].named_parameters())
    assert set(names) == {"value.weight", "value.bias"}


def test_learned_class_nodes_start_from_their_own_states_and_do_not_read_features() -> None:
    data = graph()
    model = model_for(data, class_features="learned", class_nodes=2, input="linear")
    states = model.states(model.prepare(data)).states
    assert model.class_states is not None
    assert model.class_states.shape == (2 * C, 8)
    torch.testing.assert_close(states[0][-2 * C :], model.class_states)
    other = data.clone()
    other.x = data.x + 1
    again = model.states(model.prepare(other)).states
    torch.testing.assert_close(again[0][-2 * C :], states[0][-6:])


def test_a_training_node_shows_its_label_and_in_training_the_loss_asks_for_the_others() -> None:
    data = graph()
    model = model_for(data, shown_labels=0.5, dropout=0.0, attention_dropout=0.0, input="linear")
    assert model.label_states is not None
    inputs, train = model.prepare(data), data.train_mask
    plain = inputs.features.project(model.input)[:N]
    given = model.states(inputs).states[0][:N] - plain
    torch.testing.assert_close(given[train], model.label_states[data.y[train]])
    torch.testing.assert_close(given[~train], torch.zeros_like(given[~train]))

    model.train()
    chance = Chance(7, model.config, training=True)
    shown = inputs.shown_labels(chance) >= 0
    assert 0 < int(shown.sum()) < int(train.sum())
    assert not shown[~train].any()
    logits = model.logits(inputs, chance)
    asked = train & ~shown
    expected = cross_entropy(logits[:N][asked], data.y[asked])
    classes = cross_entropy(logits[N + P :], torch.arange(C))
    model._chance = lambda: chance  # type: ignore[method-assign]
    found = model.loss(inputs, data)
    torch.testing.assert_close(found, expected + C / int(asked.sum()) * classes)


def test_every_step_shows_other_labels() -> None:
    data = graph()
    model = model_for(data, shown_labels=0.5)
    inputs = model.prepare(data)
    seen = [inputs.shown_labels(Chance(seed, model.config, training=True)) for seed in (1, 2)]
    assert not torch.equal(*seen)


@pytest.mark.parametrize("bias", [True, False])
def test_in_training_some_nodes_have_no_features_and_virtual_ones_keep_theirs(bias: bool) -> None:
    data = graph()
    model = model_for(data, hidden_features=0.5, input="linear", bias=bias)
    inputs = model.prepare(data)
    plain = inputs.features.project(model.input)
    torch.testing.assert_close(model.states(inputs).states[0], plain)  # evaluation hides none

    model.train()
    chances = [Chance(seed, model.config, training=True) for seed in (1, 2)]
    hidden, others = (inputs.hidden_features(chance) for chance in chances)
    assert hidden is not None
    assert others is not None
    assert 0 < len(hidden) < N
    assert not torch.equal(hidden, others)
    state = model.states(inputs, chances[0]).states[0]
    blank = torch.zeros(8).double() if model.input.bias is None else model.input.bias
    torch.testing.assert_close(state[hidden], blank.expand(len(hidden), -1))
    kept = torch.ones(len(state), dtype=torch.bool).index_fill(0, hidden, False)
    torch.testing.assert_close(state[kept], plain[kept])


def test_several_class_nodes_share_the_training_nodes_and_each_counts_in_the_loss() -> None:
    data = graph()
    model = model_for(data, class_nodes=3, input="linear")
    inputs = model.prepare(data)
    members = masks.class_members(data, 3)
    assert inputs.layout.classes == 3 * C
    states = model.states(inputs).states
    for number in range(3 * C):
        mean = data.x[members == number].mean(0)
        torch.testing.assert_close(states[0][N + P + number], model.input(mean))
    logits = model.logits(inputs)
    train = data.train_mask
    targets = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    weight = 9 / int(train.sum())
    expected = cross_entropy(logits[:N][train], data.y[train])
    expected = expected + weight * cross_entropy(logits[N + P :], targets)
    torch.testing.assert_close(model.loss(inputs, data), expected)


@pytest.mark.parametrize("scheme", ["fused", "sparse"])
def test_attention_to_a_class_node_is_told_by_its_class(scheme: str) -> None:
    data = graph()
    model = model_for(data, class_nodes=2, scheme=scheme)
    _, _, seen = model.attention(model.prepare(data), 5)[0]
    assert seen.role == ("classes",) * 6
    assert seen.key.tolist() == [0, 0, 1, 1, 2, 2]
    torch.testing.assert_close(seen.weights.sum(0), torch.ones(2).double())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"leave_one_out": True}, "'leave_one_out' parameter needs class nodes; add g3"),
        ({"class_features": "learned"}, "'class_features' parameter needs class nodes"),
        ({"class_nodes": 2}, "'class_nodes' parameter needs class nodes"),
        ({"class_nodes": 0}, "'class_nodes' parameter must be an int of at least 1"),
        ({"local_scores": "mlp"}, "'local_scores' parameter must be one of gat, gcn, dot"),
        ({"global_scores": "gcn"}, "'global_scores' parameter must be one of dot, gat"),
    ],
)
def test_a_switch_that_cannot_be_is_told(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        create_model("m3dphormer", graph(), experts=["l2", "c4"], **settings)


def test_the_plan_tells_what_the_switches_cost() -> None:
    data = graph()

    def flops(scheme: str, **settings: Any) -> float:
        model = model_for(data, scheme=scheme, **settings)
        works = model.works(model.prepare(data), data, scheme)
        assert works is not None
        return sum(work.flops + work.projected for work in works)

    for scheme in SCHEMES:
        assert flops(scheme, ffn=True) > flops(scheme)
        assert flops(scheme, leave_one_out=True) > flops(scheme)
        assert (
            flops(scheme, local_scores="gcn") <= flops(scheme) < flops(scheme, local_scores="dot")
        )
    model = model_for(data, leave_one_out=True)
    assert {region.fused for region in model.regions(model.prepare(data))} == {"plain"}
