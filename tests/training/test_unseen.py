"""Prediction on another graph than the one of training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph, subgraph

import m3dphormer as m3d
from graphs import random_graph
from m3dphormer import NodeClassifier, UserError, UserNotice
from m3dphormer.training.unseen import as_text, by_id, place_new

SMALL = {"hidden": 8, "layers": 2, "clusters": 4, "epochs": 3}
PARTS = ("train_mask", "val_mask", "test_mask")
NO_FEATURES = np.zeros((8, 1))
CENTROIDS = np.array([[0.0], [1.0], [2.0]])


def named(data: Data) -> Data:
    data = data.clone()
    data.node_ids = [f"n{i}" for i in range(data.num_nodes)]
    return data


def part_of(data: Data, nodes: torch.Tensor) -> Data:
    """The graph on those nodes alone, in that order, with their ids and labels."""
    place = torch.full((data.num_nodes,), -1)
    place[nodes] = torch.arange(len(nodes))
    edges = place[subgraph(nodes, data.edge_index, num_nodes=data.num_nodes)[0]]
    rows = {key: data[key][nodes] for key in ("x", "y", *PARTS)}
    ids = [data.node_ids[i] for i in nodes.tolist()]
    return Data(edge_index=edges, node_ids=ids, label_names=data.label_names, **rows)


@pytest.fixture(scope="module")
def whole() -> Data:
    return named(random_graph(nodes=80))


@pytest.fixture(scope="module")
def seen(whole: Data) -> Data:
    """All but eight test nodes."""
    keep = torch.ones(80, dtype=torch.bool)
    keep[whole.test_mask.nonzero().squeeze(1)[:8]] = False
    return part_of(whole, keep.nonzero().squeeze(1))


@pytest.fixture(scope="module", params=[0.0, 0.5], ids=["plain", "shown labels"])
def fitted(request: pytest.FixtureRequest, seen: Data) -> NodeClassifier:
    return NodeClassifier(**SMALL, shown_labels=request.param).fit(seen)


def undirected(*pairs: tuple[int, int]) -> np.ndarray:
    edges = np.array(pairs).T
    return np.concatenate([edges, edges[::-1]], axis=1)


def test_a_new_node_joins_the_majority_of_its_neighbours() -> None:
    old = np.array([1, 2, 2, -1])
    edges = undirected((3, 0), (3, 1), (3, 2))
    assert place_new(old, edges, NO_FEATURES, CENTROIDS).tolist() == [1, 2, 2, 2]
    assert old.tolist() == [1, 2, 2, -1]


def test_a_tie_goes_to_the_lowest_cluster() -> None:
    edges = undirected((2, 0), (2, 1))
    assert place_new(np.array([2, 1, -1]), edges, NO_FEATURES, CENTROIDS).tolist() == [2, 1, 1]


def test_new_nodes_behind_new_nodes_follow_in_rounds() -> None:
    edges = undirected((0, 1), (1, 2), (2, 3))
    assert place_new(np.array([2, -1, -1, -1]), edges, NO_FEATURES, CENTROIDS).tolist() == [2] * 4


def test_a_node_without_such_neighbours_takes_the_nearest_centroid() -> None:
    x = np.array([[0.0], [1.4], [1.6], [9.0]])
    edges = undirected((1, 2))
    assert place_new(np.array([0, -1, -1, -1]), edges, x, CENTROIDS).tolist() == [0, 1, 2, 2]


@given(st.integers(0, 1000))
def test_the_order_of_nodes_does_not_matter_to_their_clusters(seed: int) -> None:
    rng = np.random.RandomState(seed)
    n = rng.randint(1, 12)
    old, x = rng.randint(-2, 3, n).clip(-1), rng.standard_normal((n, 1))
    edges = undirected(*rng.randint(n, size=(12, 2)))
    order = rng.permutation(n)
    moved = place_new(old[order], np.argsort(order)[edges], x[order], CENTROIDS)
    assert np.array_equal(moved, place_new(old, edges, x, CENTROIDS)[order])


def test_ids_are_matched_as_text_wherever_they_stand() -> None:
    ids = as_text([7, "b", 9])
    found = by_id(ids, np.array(["9", "7", "a"]), np.array([3, 4, 5]))
    assert found.tolist() == [4, -1, 3]


@pytest.mark.parametrize("settings", [{}, {"preset": "paper"}, {"scheme": "dual"}], ids=str)
def test_the_training_graph_in_any_order_gives_back_its_predictions(
    whole: Data, settings: dict[str, object]
) -> None:
    clf = NodeClassifier(**SMALL, **settings).fit(whole)  # type: ignore[arg-type]
    trained = whole.clone()
    trained.cluster = torch.from_numpy(clf.memory_.cluster)
    with torch.no_grad():
        expected = clf.model_(clf.model_.prepare(trained)).softmax(dim=1).numpy()
    assert np.abs(clf.predict_proba(whole) - expected).max() < 1e-6
    order = torch.randperm(80, generator=torch.Generator().manual_seed(0))
    moved = clf.predict_proba(part_of(whole, order))
    assert np.abs(moved - expected[order]).max() < 1e-6


def test_without_ids_the_same_content_is_the_training_graph() -> None:
    data = random_graph()
    clf = NodeClassifier(**SMALL).fit(data)
    same, other = data.clone(), data.clone()
    other.x = data.x + 0.01
    assert clf.memory_.cluster is not None
    assert np.array_equal(clf.memory_.clusters(same), clf.memory_.cluster)
    nearest = place_new(np.full(60, -1), np.zeros((2, 0), int), other.x, clf.memory_.centroids)
    assert np.array_equal(clf.memory_.clusters(m3d.from_data(other)), nearest)


def test_a_node_depends_on_its_two_hop_ball_alone(fitted: NodeClassifier, whole: Data) -> None:
    known = set(fitted.memory_.node_ids)  # type: ignore[arg-type]
    new = [i for i, name in enumerate(whole.node_ids) if name not in known]
    before = fitted.predict_proba(whole)
    tried = 0
    for node in new:
        ball = k_hop_subgraph(node, 2, whole.edge_index, num_nodes=80)[0]
        outside = torch.ones(80, dtype=torch.bool)
        outside[ball] = False
        changed = whole.clone()
        changed.x = whole.x + 5.0 * outside.unsqueeze(1)
        assert np.allclose(fitted.predict_proba(changed)[node], before[node], atol=1e-6)
        if outside.any():
            assert not np.allclose(fitted.predict_proba(changed)[outside], before[outside])
        # Neighbours that are new themselves may lose the edges that place them in a cluster.
        if len(ball) > 1 and not set(ball.tolist()) & set(new) - {node}:
            alone = part_of(whole, ball)
            place = ball.tolist().index(node)
            assert np.allclose(fitted.predict_proba(alone)[place], before[node], atol=1e-6)
            tried += 1
    assert tried


def test_labels_of_the_new_graph_do_not_count_and_may_be_missing(
    fitted: NodeClassifier, whole: Data
) -> None:
    before = fitted.predict_proba(whole)
    bare = Data(x=whole.x, edge_index=whole.edge_index, node_ids=whole.node_ids)
    other = whole.clone()
    other.y = (whole.y + 1) % 3
    other.train_mask = whole.test_mask
    other.test_mask = whole.train_mask
    assert np.array_equal(fitted.predict_proba(bare), before)
    assert np.array_equal(fitted.predict_proba(other), before)


def test_a_graph_of_new_nodes_alone_can_be_predicted_node_by_node(
    fitted: NodeClassifier, whole: Data
) -> None:
    with pytest.warns(UserNotice, match="has no edges"):
        one = fitted.predict_proba(part_of(whole, torch.tensor([79])))
    assert one.shape == (1, 3)
    assert one.sum() == pytest.approx(1, abs=1e-5)


def test_what_is_saved_and_loaded_predicts_the_same_bits_for_unseen_nodes(
    fitted: NodeClassifier, whole: Data, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "clf")
    loaded = NodeClassifier.load(tmp_path / "clf")
    assert np.array_equal(loaded.predict_proba(whole), fitted.predict_proba(whole))
    assert np.array_equal(loaded.gates(whole), fitted.gates(whole))


def test_scores_compare_labels_by_name(fitted: NodeClassifier, whole: Data) -> None:
    renumbered = whole.clone()
    renumbered.y = 2 - whole.y
    renumbered.label_names = whole.label_names[::-1]
    assert fitted.score(renumbered) == fitted.score(whole)


def test_other_features_are_refused(fitted: NodeClassifier, whole: Data) -> None:
    other = whole.clone()
    other.x = whole.x[:, :4]
    with pytest.raises(UserError, match="has 4 features, the classifier was fitted on 5"):
        fitted.predict(other)


def test_encodings_of_one_graph_are_not_applied_to_another() -> None:
    one, other = random_graph(nodes=40), random_graph(nodes=40, seed=1)
    one.x = other.x = None
    with pytest.warns(UserNotice, match="no features"):
        one, other = m3d.from_data(one), m3d.from_data(other)
    clf = NodeClassifier(**SMALL).fit(one)
    assert clf.predict(one).shape == (40,)
    with pytest.raises(UserError, match="has no features; encodings of one graph mean nothing"):
        clf.predict(other)
