"""Ablated models live like the whole one: saved, loaded, resumed, explained, on unseen nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.utils import subgraph

import m3dphormer as m3d
from graphs import random_graph
from m3dphormer import NodeClassifier
from m3dphormer.training.checkpoint import Checkpoint

SMALL = {"hidden": 8, "clusters": 4, "epochs": 3}
SWITCHES: list[dict[str, Any]] = [
    {"ffn": True},
    {"local_scores": "gcn"},
    {"local_scores": "dot", "cluster_scores": "gat", "global_scores": "gat"},
    {"leave_one_out": True},
    {"class_features": "learned"},
    {"class_nodes": 3},
    {"class_nodes": 2, "class_features": "learned", "leave_one_out": True, "norm": "batch"},
]


@pytest.mark.parametrize("settings", SWITCHES, ids=str)
def test_what_is_saved_predicts_explains_and_knows_unseen_nodes(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    data = random_graph(nodes=60)
    data.node_ids = [f"n{i}" for i in range(60)]
    fitted = NodeClassifier(**SMALL, **settings).fit(data)
    fitted.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    trained = fitted.predict_proba(data)
    np.testing.assert_array_equal(loaded.predict_proba(data), trained)
    with torch.no_grad():
        logits = fitted.model_(fitted.model_.prepare(_with_clusters(data, fitted)))
    np.testing.assert_allclose(trained, logits.softmax(1).numpy(), rtol=0, atol=1e-6)
    assert loaded.gates(data).shape == (2, 60, 3)
    table = loaded.explain(data, "n7", top=None)
    np.testing.assert_allclose(table.groupby(["layer", "expert"])["weight"].sum(), 1, rtol=1e-5)
    named = table[table["kind"] == "class"]["key"]
    assert set(named) == set(data.label_names)
    keep = torch.arange(10, 40)
    part = data.clone()
    part.edge_index = subgraph(keep, data.edge_index, relabel_nodes=True, num_nodes=60)[0]
    for key in ("x", "y", "train_mask", "val_mask", "test_mask"):
        part[key] = data[key][keep]
    part.node_ids = [f"new{i}" for i in range(30)]
    part.num_nodes = 30
    told = loaded.predict_proba(part)
    assert told.shape == (30, 3)
    assert np.isfinite(told).all()


def _with_clusters(data: Any, fitted: NodeClassifier) -> Any:
    known = data.clone()
    known.cluster = torch.from_numpy(fitted.memory_.cluster)
    return known


@pytest.mark.parametrize("settings", SWITCHES, ids=str)
def test_a_training_that_was_ended_ends_on_the_same_bits(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    data = random_graph(nodes=60)
    whole = NodeClassifier(**{**SMALL, "epochs": 6}, **settings).fit(data)
    checkpoint = Checkpoint(tmp_path, every=0.0)
    NodeClassifier(**SMALL, **settings).fit(data, keeper=checkpoint)
    again = NodeClassifier(**{**SMALL, "epochs": 6}, **settings)
    again.fit(data, keeper=Checkpoint(tmp_path, every=0.0))
    for name, weight in again.model_.state_dict().items():
        assert torch.equal(weight, whole.model_.state_dict()[name]), name


@pytest.mark.parametrize("settings", SWITCHES, ids=str)
def test_a_run_has_a_plan(settings: dict[str, Any]) -> None:
    found = m3d.plan("hierarchy", settings=settings)
    assert all(one.peak_bytes > 0 for one in found.schemes.values())
    assert {region.mask.partition("(")[0] for region in found.regions} == {"l2", "c4", "g3"}
