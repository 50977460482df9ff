"""M3Dphormer against a plain dense restatement of the paper's equations and of each switch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, leaky_relu
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.errors import UserError, UserNotice
from m3dphormer.masks import c4, g3, l2, registry
from m3dphormer.models import create_model
from m3dphormer.models.m3dphormer import M3Dphormer

N, P, C = 60, 6, 3
REAL, CLUSTER, CLASS = slice(0, N), slice(N, N + P), slice(N + P, N + P + C)


def graph() -> Data:
    data = random_graph(N, C)
    data.x = data.x.double()
    return data


def model_for(data: Data, **settings: Any) -> M3Dphormer:
    torch.manual_seed(0)
    model = create_model("m3dphormer", data, hidden=8, layers=2, clusters=P, **settings).double()
    assert isinstance(model, M3Dphormer)
    with torch.no_grad():  # away from the zeros and ones that hide mistakes
        for name, parameter in model.named_parameters():
            if "gate" in name or "norm" in name:
                parameter.add_(torch.randn_like(parameter))
    return model.eval()


def dense_masks(data: Data, self_loops: bool) -> list[Tensor]:
    layout = c4(data, P).layout | g3(data).layout
    built = (l2(data), c4(data, P, self_loops=self_loops), g3(data))
    return [mask.widen(layout).to_dense() for mask in built]


def features(data: Data) -> Tensor:
    cluster = c4(data, P).regions[1].group  # type: ignore[union-attr]
    rows = [data.x]
    for p in range(P):
        rows.append(data.x[cluster == p].mean(0, keepdim=True))
    for c in range(C):
        rows.append(data.x[data.train_mask & (data.y == c)].mean(0, keepdim=True))
    return torch.cat(rows)


def softmax_rows(scores: Tensor, seen: Tensor) -> Tensor:
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return weights.nan_to_num(0.0)  # a row without keys


def attention(expert: Any, z: Tensor, seen: Tensor) -> Tensor:
    heads = []
    for h in range(2):
        at = slice(4 * h, 4 * h + 4)
        value = expert.value(z)[:, at]
        if expert.kind == "gat":
            s = (expert.score or expert.value)(z)[:, at]
            a, b = s @ expert.score_query[h], s @ expert.score_key[h]
            scores = leaky_relu(a[:, None] + b[None, :], 0.2)
        else:
            scores = expert.query(z)[:, at] @ expert.key(z)[:, at].T / 2
        heads.append(softmax_rows(scores, seen) @ value)
    return torch.cat(heads, 1)


def restated(model: M3Dphormer, data: Data, preset: str) -> Tensor:
    """Logits of all rows, straight from the equations."""
    official = preset == "official"
    z0 = model.input(features(data))
    h = z0 + z0.relu() if official else z0
    states = [h]
    masks = dense_masks(data, self_loops=official)
    for layer in model.layers:
        z = h / (h.pow(2).mean(1, keepdim=True) + 1e-6).sqrt() * layer.norm.weight
        if official:
            z = z + layer.norm.bias
        beta1, beta2 = torch.sigmoid(z @ layer.router.gate.weight.T).T
        gates = torch.stack([beta1, (1 - beta1) * beta2, (1 - beta1) * (1 - beta2)], 1)
        if official:
            gates = gates.clone()
            gates[CLUSTER] = torch.tensor([0.0, 1.0, 0.0], dtype=z.dtype)
            gates[CLASS] = torch.tensor([0.0, 0.0, 1.0], dtype=z.dtype)
        outs = [attention(e, z, m) for e, m in zip(layer.experts, masks, strict=True)]
        mixed = sum(gates[:, i : i + 1] * out for i, out in enumerate(outs))
        h = mixed.relu() + layer.residual(h)
        states.append(h)
    return model.classifier(sum(states) if official else h)


@pytest.mark.parametrize("preset", ["official", "paper"])
@pytest.mark.parametrize("scheme", ["reference", "sparse"])
def test_the_network_is_the_equations(preset: str, scheme: str) -> None:
    data = graph()
    model = model_for(data, preset=preset, scheme=scheme)
    got = model(model.prepare(data))
    torch.testing.assert_close(got, restated(model, data, preset)[REAL], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("preset", ["official", "paper"])
def test_the_loss_counts_training_and_class_nodes(preset: str) -> None:
    data = graph()
    model = model_for(data, preset=preset)
    logits = restated(model, data, preset)
    train = data.train_mask
    rows = torch.cat([logits[REAL][train], logits[CLASS]])
    targets = torch.cat([data.y[train], torch.arange(C)])
    together = cross_entropy(rows, targets)
    n_train = int(train.sum())
    weighted = together * (n_train + C) / n_train
    expected = together if preset == "paper" else weighted
    torch.testing.assert_close(model.loss(model.prepare(data), data), expected)


def test_the_paper_preset_has_no_biases_but_official_has_them_everywhere_but_the_gates() -> None:
    data = graph()
    paper = dict(model_for(data, preset="paper").named_parameters())
    assert not [name for name in paper if name.endswith("bias")]
    official = dict(model_for(data).named_parameters())
    weights = [n for n in official if n.endswith(".weight") and "gate" not in n]
    assert all(n.replace("weight", "bias") in official for n in weights)
    assert not [n for n in official if "gate" in n and n.endswith("bias")]


def test_a_preset_can_be_changed_switch_by_switch() -> None:
    data = graph()
    model = model_for(data, preset="paper", readout="sum", bias=True)
    assert (model.config.readout, model.config.bias, model.config.input) == ("sum", True, "linear")


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({}, [0.5, 0.25, 0.25]),
        ({"experts": ["c4", "g3"]}, [0.5, 0.5]),
        ({"experts": ["l2", "g3"]}, [0.5, 0.5]),
        ({"experts": ["l2"]}, [1.0]),
        ({"routing": "uniform"}, [1 / 3, 1 / 3, 1 / 3]),
        ({"routing": "softmax"}, [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_gates_start_as_designed(settings: dict[str, Any], start: list[float]) -> None:
    data = graph()
    torch.manual_seed(0)
    model = create_model("m3dphormer", data, hidden=8, clusters=P, **settings).double()
    gates = model.gates(model.prepare(data))
    assert gates.shape == (2, N, len(start))
    torch.testing.assert_close(gates, torch.tensor(start).double().expand_as(gates))


def test_batch_norm_comes_after_the_residual_sum_over_all_rows() -> None:
    data = graph()
    model = model_for(data, norm="batch").train()
    inputs = model.prepare(data)
    seen = []
    model.layers[1].register_forward_hook(lambda module, args, out: seen.append(out[0]))
    model.layers[1].norm.reset_parameters()
    model(inputs)
    torch.testing.assert_close(seen[0].mean(0), torch.zeros(8).double(), rtol=0, atol=1e-9)
    assert len(seen[0]) == N + P + C


def test_an_empty_class_gets_zero_features_and_does_no_harm() -> None:
    data = graph()
    data.train_mask = data.train_mask & (data.y != 2)
    model = model_for(data)
    with pytest.warns(UserNotice, match="class '2' has no training node"):
        inputs = model.prepare(data)
    bias = model.input.bias  # what is left of a row of zeros
    torch.testing.assert_close(inputs.features.project(model.input)[CLASS][2], bias)
    assert torch.isfinite(model(inputs)).all()


@pytest.mark.parametrize(
    "experts",
    [
        ["l2", "c3", "g2"],
        ["l1", "c4", "g1"],
        ["l2", "c1", "c2"],
        ["l1", "l2", "c3", "g2"],
        ["g1", "g2"],
        ["c2"],
    ],
)
def test_any_masks_make_a_model_that_trains(experts: list[str]) -> None:
    data = graph()
    model = model_for(data, experts=experts).train()
    inputs = model.prepare(data)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        losses.append(model.loss(inputs, data))
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < losses[0]
    gates = model.gates(inputs)
    assert gates.shape == (2, N, len(experts))
    torch.testing.assert_close(gates.sum(-1), torch.ones(2, N).double())


def test_four_experts_are_routed_by_a_softmax() -> None:
    model = model_for(graph(), experts=["l1", "l2", "c3", "g2"])
    assert model.layers[0].router.gate.out_features == 4
    assert model.gate_names == ("l1", "l2", "c3", "g2")  # two experts are local


def test_a_mask_of_the_users_own_is_an_expert_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BUILDERS", dict(registry._BUILDERS))

    @masks.register_mask("global")
    def same_sign(data: Data) -> masks.Mask:
        sign = data.x[:, 0] > 0
        return masks.from_rule(data, lambda u, v: sign[u] == sign[v], name="same_sign")

    data = graph()
    model = model_for(data, experts=["l2", "same_sign"])
    assert torch.isfinite(model(model.prepare(data))).all()
    assert model.gate_names == ("local", "global")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"heads": 3}, "'heads' parameter must divide hidden=64. Got 3"),
        ({"heads": 0}, "'heads' parameter must be an int of at least 1. Got 0"),
        ({"hidden": 0}, "'hidden' parameter must be an int of at least 1"),
        ({"hidden": 1.5}, "'hidden' parameter must be an int"),
        ({"dropout": 1.0}, r"'dropout' parameter must be a float in the range \[0, 1\). Got 1.0"),
        ({"attention_dropout": -1}, r"range \[0, 1\)"),
        ({"dropout": "high"}, "must be a float"),
        ({"bias": "yes"}, "'bias' parameter must be true or false"),
        ({"norm": "layer"}, "'norm' parameter must be one of rms, batch. Got 'layer'"),
        ({"preset": "offical"}, "Unknown preset 'offical'. Did you mean official"),
        ({"experts": ["l2", "c9"]}, "Unknown mask 'c9'"),
        ({"experts": ["l2", "l2"]}, "'experts' parameter must be a list of different mask names"),
        ({"clusters": "some"}, "'clusters' parameter must be an int of at least 1 or 'auto'"),
        ({"hiden": 64}, "Unknown setting 'hiden'. Did you mean hidden"),
    ],
)
def test_bad_settings_are_told_in_one_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        create_model("m3dphormer", graph(), **settings)
    assert "\n" not in str(caught.value)


def test_an_unknown_model_offers_the_nearest() -> None:
    with pytest.raises(UserError, match=r"Unknown model 'm3dformer'. Did you mean m3dphormer"):
        create_model("m3dformer", graph())
