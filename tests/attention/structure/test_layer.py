"""A layer computed by its structure is the plain layer, in value and gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.attention import native, structure
from m3dphormer.attention.structure import recompute
from m3dphormer.models import create_model

pytestmark = [
    pytest.mark.skipif(native.library() is None, reason="the kernels are not built"),
    pytest.mark.filterwarnings("ignore:g3. class"),
]


def graph(empty_class: bool = False) -> Data:
    data = random_graph(60, 3)
    data.x = data.x.double()
    if empty_class:
        data.train_mask = data.train_mask & (data.y != 1)
    return data


def step(data: Data, scheme: str, settings: dict[str, Any]) -> list[torch.Tensor]:
    """Loss, logits and all gradients of one training step."""
    torch.manual_seed(0)
    given = {"hidden": 16, "heads": 2, "clusters": 6, "attention_dropout": 0.3} | settings
    model = create_model("m3dphormer", data, scheme=scheme, **given).double().train()
    with torch.no_grad():  # away from the zeros and ones that hide mistakes
        for name, parameter in model.named_parameters():
            if "gate" in name or "norm" in name or "bias" in name:
                parameter.add_(0.5 * torch.randn_like(parameter))
    torch.manual_seed(1)
    inputs = model.prepare(data)
    loss = model.loss(inputs, data)
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    logits = model.eval()(inputs)
    return [loss, logits, *(grad for grad in gradients.values() if grad is not None)]


@pytest.mark.parametrize("preset", ["official", "paper"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dropout": 0.0, "attention_dropout": 0.0},
        {"heads": 1},
        {"heads": 8},
        {"bias": False},
        {"bias": True, "norm_bias": False},
        {"norm": "batch"},
        {"norm": "batch", "bias": False},
        {"local_values": "shared"},
        {"virtual_gates": "routed", "cluster_self_loops": True},
        {"cluster_self_loops": False},
        {"clusters": 1},
        {"clusters": 60},
        {"routing": "softmax"},
        {"routing": "uniform"},
        {"experts": ["c4"]},
        {"experts": ["g3", "l2"]},
        {"experts": ["l1", "c3", "g2"]},
        {"experts": ["c4", "g3", "c1", "l2"]},
        {"experts": ["g1"], "input": "linear", "readout": "last"},
        {"residual": "inside"},
        {"residual": "inside", "norm": "batch", "bias": False},
        {"residual": "inside", "norm": "batch", "leave_one_out": True},
        {"shared": True},
        {"shared": True, "residual": "inside", "norm": "batch", "layers": 3},
        {"shared": True, "residual": "inside", "ffn": True},
        {"ffn": True},
        {"ffn": True, "norm": "batch"},
        {"local_scores": "gcn"},
        {"local_scores": "dot"},
        {"cluster_scores": "gat"},
        {"global_scores": "gat"},
        {"leave_one_out": True},
        {"leave_one_out": True, "norm": "batch", "ffn": True, "class_nodes": 3},
        {"leave_one_out": True, "global_scores": "gat", "class_features": "learned"},
        {"class_features": "learned"},
        {"class_nodes": 3},
    ],
)
@pytest.mark.parametrize("empty_class", [False, True])
def test_fused_is_the_reference(preset: str, settings: dict[str, Any], empty_class: bool) -> None:
    data = graph(empty_class)
    law = step(data, "reference", {"preset": preset, **settings})
    ours = step(data, "fused", {"preset": preset, **settings})
    assert len(law) == len(ours)
    for one, other in zip(ours, law, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("residual", ["after", "inside"])
@pytest.mark.parametrize("norm", ["rms", "batch"])
def test_layers_computed_twice_give_the_same_bits(
    norm: str, residual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, settings = graph(), {"layers": 3, "norm": norm, "residual": residual}
    kept = step(data, "fused", settings)
    monkeypatch.setattr(recompute, "KEPT_BYTES", 0)
    calls = []
    monkeypatch.setattr(
        structure, "recomputed", lambda *given: calls.append(1) or recompute.recomputed(*given)
    )
    again = step(data, "fused", settings)
    assert calls
    assert all(torch.equal(one, other) for one, other in zip(kept, again, strict=True))


@pytest.mark.parametrize("threads", [2, 5])
def test_the_bits_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    data, before = random_graph(3000, 3, features=16), torch.get_num_threads()
    data.x = data.x.double()
    try:
        torch.set_num_threads(1)
        one = step(data, "fused", {"clusters": 4})
        torch.set_num_threads(threads)
        other = step(data, "fused", {"clusters": 4})
    finally:
        torch.set_num_threads(before)
    for left, right in zip(one, other, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-11, atol=1e-12)  # torch's own products
