"""Features in any units: each column is brought to one scale, that of the training graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import m3dphormer as m3d
from graphs import random_graph
from m3dphormer import NodeClassifier, UserNotice

MLP = {"hidden": 8, "layers": 1, "epochs": 60, "lr": 0.01}
SETTINGS = {**MLP, "clusters": 4}
TOLD = r"random: features reach .*e\+0.; each column is brought to mean 0 and deviation 1"


def people(nodes: int = 120) -> Data:
    """Age tells the class; income, in dollars, and a constant tell nothing."""
    data = random_graph(nodes, classes=2, features=3)
    noise = torch.rand(nodes, generator=torch.Generator().manual_seed(0))
    data.x[:, 0] = 25 + 30 * data.y + 10 * noise
    data.x[:, 1] = 2e4 + 6e4 * noise.flip(0)
    data.x[:, 2] = 7
    data.node_ids = [f"n{i}" for i in range(nodes)]
    return data


def test_ages_beside_incomes_are_learned_and_it_is_told() -> None:
    data = people()
    with pytest.warns(UserNotice, match=TOLD):
        clf = NodeClassifier("mlp", **MLP).fit(data)
    assert clf.score(data, "test") > 0.95
    raw = NodeClassifier("mlp", features="raw", **MLP).fit(data)
    assert raw.score(data, "test") < 0.8


def test_the_numbers_are_those_of_columns_that_were_scaled_by_hand() -> None:
    data = people()
    by_hand = data.clone()
    x = data.x.double()
    by_hand.x = ((x - x.mean(0)) / x.std(0, correction=0).clamp(min=1e-9)).float()
    with pytest.warns(UserNotice, match=TOLD):
        clf = NodeClassifier(**SETTINGS).fit(data)
    other = NodeClassifier(features="raw", **SETTINGS).fit(by_hand)
    np.testing.assert_allclose(
        clf.predict_proba(data), other.predict_proba(by_hand), rtol=0, atol=1e-5
    )


def test_another_graph_is_on_the_scale_of_training(tmp_path: Path) -> None:
    data = people()
    with pytest.warns(UserNotice, match=TOLD):
        clf = NodeClassifier(**SETTINGS).fit(data)
    expected = clf.predict_proba(data)
    clf.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(loaded.predict_proba(data), expected)
    more = Data(
        x=torch.cat([data.x, torch.tensor([[30.0, 1e9, 7.0]])]),  # would change mean and deviation
        edge_index=data.edge_index,
        node_ids=[*data.node_ids, "new"],
    )
    np.testing.assert_allclose(loaded.predict_proba(more)[:-1], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["digits", "hierarchy"])
def test_graphs_in_small_numbers_stay_as_they_are(name: str) -> None:
    clf = NodeClassifier("mlp", epochs=1).fit(m3d.load(name))
    assert clf.memory_.scaling is None


def test_small_numbers_are_scaled_where_it_is_asked_for() -> None:
    data = random_graph()
    clf = NodeClassifier("mlp", features="standard", **MLP).fit(data)
    x = data.x.double().numpy()
    assert clf.memory_.scaling is not None
    np.testing.assert_allclose(clf.memory_.scaling, [x.mean(0), x.std(0)])
