from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from torch_geometric.data import Data

import m3dphormer as m3d
from graphs import random_graph
from m3dphormer import NodeClassifier, UserError

SMALL = {"hidden": 8, "layers": 2, "clusters": 4, "epochs": 10}


@pytest.fixture(scope="module")
def data() -> Data:
    return random_graph()


@pytest.fixture
def fitted(data: Data) -> NodeClassifier:
    return NodeClassifier(**SMALL).fit(data)


def named_graph() -> Data:
    rng = np.random.RandomState(0)
    ids = [f"n{i}" for i in range(30)]
    labels = ["cat", "dog", None] * 10
    nodes = pd.DataFrame({"id": ids, "label": labels, "a": rng.randn(30), "b": rng.randn(30)})
    edges = pd.DataFrame(
        {"source": rng.permutation(ids).tolist(), "target": rng.permutation(ids).tolist()}
    )
    return m3d.from_frames(nodes, edges)


def test_label_names_and_ids_come_back_in_predictions() -> None:
    data = named_graph()
    clf = NodeClassifier(**SMALL).fit(data)
    assert set(clf.predict(data)) <= {"cat", "dog"}
    table = clf.predictions(data)
    gates = ["gate_local", "gate_cluster", "gate_global"]
    assert list(table.columns) == ["id", "label", "p_cat", "p_dog", *gates]
    assert table["id"].tolist() == [f"n{i}" for i in range(30)]
    assert np.allclose(table[["p_cat", "p_dog"]].sum(axis=1), 1)
    assert np.allclose(table[gates].sum(axis=1), 1)
    assert (table["label"] == clf.predict(data)).all()


def test_scores_are_those_of_the_kept_epoch(fitted: NodeClassifier, data: Data) -> None:
    best = fitted.memory_.best
    assert fitted.score(data) == pytest.approx(best.test)
    assert fitted.score(data, "val") == pytest.approx(best.val)
    assert fitted.score(data, "train") == pytest.approx(best.train)


def test_what_is_saved_and_loaded_predicts_the_same_bits(
    fitted: NodeClassifier, data: Data, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "clf")
    loaded = NodeClassifier.load(tmp_path / "clf")
    assert np.array_equal(loaded.predict_proba(data), fitted.predict_proba(data))
    assert loaded.settings == fitted.settings
    assert repr(loaded) == repr(fitted)


@pytest.mark.parametrize("preset", ["official", "paper"])
def test_every_preset_can_be_saved(preset: str, data: Data, tmp_path: Path) -> None:
    clf = NodeClassifier(preset=preset, **SMALL).fit(data)
    clf.save(tmp_path / "clf")
    loaded = NodeClassifier.load(tmp_path / "clf")
    assert np.array_equal(loaded.predict_proba(data), clf.predict_proba(data))


def test_prediction_ignores_the_labels_of_the_graph(fitted: NodeClassifier, data: Data) -> None:
    other = data.clone()
    other.y = (data.y + 1) % 3
    assert np.array_equal(fitted.predict_proba(other), fitted.predict_proba(data))


def test_fitting_changes_neither_the_graph_nor_the_random_state(data: Data) -> None:
    before = {key: value.clone() for key, value in data if isinstance(value, torch.Tensor)}
    keys = set(data.keys())
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    NodeClassifier(**SMALL).fit(data)
    assert torch.equal(torch.rand(3), expected)
    assert set(data.keys()) == keys
    assert all(torch.equal(data[key], value) for key, value in before.items())


def test_fitting_twice_gives_the_same_bits_and_another_seed_others(data: Data) -> None:
    def run(seed: int) -> np.ndarray:
        return NodeClassifier(seed=seed, **SMALL).fit(data).predict_proba(data)

    assert np.array_equal(run(0), run(0))
    assert not np.array_equal(run(0), run(1))


def test_the_constructor_only_stores() -> None:
    clf = NodeClassifier("no such model", hidden=-3, device="nowhere")
    assert clf.settings == {"hidden": -3}


def test_parameters_are_read_and_set_by_name() -> None:
    clf = NodeClassifier(seed=3, hidden=8)
    assert clf.get_params()["hidden"] == 8
    assert clf.set_params(hidden=16, seed=4, model="other", heads=1) is clf
    assert clf.get_params(deep=False) == {
        "model": "other",
        "seed": 4,
        "metric": None,
        "device": "cpu",
        "verbose": False,
        "hidden": 16,
        "heads": 1,
    }


def test_a_clone_has_the_parameters_and_nothing_learned(fitted: NodeClassifier) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    copy.set_params(hidden=16)
    assert fitted.settings["hidden"] == 8
    assert [name for name in vars(copy) if name.endswith("_")] == []


def test_scalars_of_numpy_are_settings_like_those_of_python(data: Data, tmp_path: Path) -> None:
    grid = {"hidden": np.int64(8), "dropout": np.float32(0.5), "bias": np.bool_(True)}
    grid |= {"layers": np.uint8(2), "clusters": np.int32(4), "epochs": np.int16(3)}
    clf = NodeClassifier(seed=np.int64(2), lr=np.float64(0.01), **grid)  # type: ignore[arg-type]
    assert clone(clf).get_params() == clf.get_params()
    assert clf.get_params()["hidden"] is grid["hidden"]
    same = {name: value.item() for name, value in grid.items()}
    fitted, plain = clone(clf).fit(data), NodeClassifier(seed=2, lr=0.01, **same).fit(data)
    assert np.array_equal(fitted.predict_proba(data), plain.predict_proba(data))
    fitted.save(tmp_path)
    assert NodeClassifier.load(tmp_path).get_params() == plain.get_params()


def test_a_pickled_classifier_predicts_the_same_bits(fitted: NodeClassifier, data: Data) -> None:
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict_proba(data), fitted.predict_proba(data))
    assert copy.get_params() == fitted.get_params()
    assert copy.history_ == fitted.history_


def test_a_second_fit_starts_from_nothing(fitted: NodeClassifier, data: Data) -> None:
    before = fitted.predict_proba(data)
    fitted.fit(random_graph(nodes=50, features=3, classes=4))
    assert fitted.classes_.tolist() == ["0", "1", "2", "3"]
    assert np.array_equal(fitted.fit(data).predict_proba(data), before)


def test_a_fit_that_fails_leaves_what_was_learned(fitted: NodeClassifier, data: Data) -> None:
    before = fitted.predict_proba(data)
    with pytest.raises(UserError):
        fitted.set_params(dropout=2).fit(data)
    assert np.array_equal(fitted.predict_proba(data), before)


def test_prediction_does_not_change_the_graph(fitted: NodeClassifier, data: Data) -> None:
    given = data.clone()
    fitted.predict(given)
    fitted.score(given)
    fitted.predictions(given)
    assert set(given.keys()) == set(data.keys())
    assert all(torch.equal(given[k], v) for k, v in data if isinstance(v, torch.Tensor))


def test_gates_are_one_a_layer_node_and_expert(fitted: NodeClassifier, data: Data) -> None:
    gates = fitted.gates(data)
    assert gates.shape == (2, 60, 3)
    assert np.allclose(gates.sum(axis=2), 1)


def test_a_plain_pyg_graph_is_taken_too() -> None:
    data = random_graph()
    plain = Data(x=data.x, edge_index=data.edge_index[:, ::2], y=data.y)
    clf = NodeClassifier(**SMALL).fit(plain)
    assert clf.predict(plain).shape == (60,)


def test_a_partition_of_the_users_own_is_kept(data: Data, tmp_path: Path) -> None:
    given = data.clone()
    given.cluster = torch.arange(60) % 3
    clf = NodeClassifier(**SMALL).fit(given)
    clf.save(tmp_path / "clf")
    loaded = NodeClassifier.load(tmp_path / "clf")
    assert loaded.memory_.cluster is not None
    assert loaded.memory_.cluster.tolist() == given.cluster.tolist()
    assert np.array_equal(loaded.predict_proba(data), clf.predict_proba(given))


def test_an_unfitted_classifier_says_so(data: Data) -> None:
    with pytest.raises(UserError, match=r"not fitted yet; call fit\(data\) first"):
        NodeClassifier().predict(data)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"model": "gnc"}, "Unknown model 'gnc'"),
        ({"device": "cuda:7"}, "Device 'cuda:7' is not available here; take cpu"),
        ({"device": "potato"}, "Device 'potato' is not available"),
        ({"metric": "roc_auc"}, "roc_auc needs two classes"),
        ({"device": 3.5}, "Device 3.5 is not available"),
        ({"seed": -1}, "The 'seed' parameter must be an int of at least 0. Got -1."),
        ({"seed": "0"}, "The 'seed' parameter must be an int of at least 0. Got '0'."),
        ({"seed": np.int64(-1)}, "The 'seed' parameter must be an int of at least 0. Got -1."),
        ({"hidden": np.float64(8)}, "The 'hidden' parameter must be an int .* Got 8.0."),
        ({"hidden": np.bool_(True)}, "The 'hidden' parameter must be an int .* Got True."),
        ({"dropout": np.float32(1.5)}, r"The 'dropout' parameter must be a float .* Got 1.5."),
        ({"dropout": 1.5}, r"The 'dropout' parameter must be a float in .* Got 1.5."),
        (
            {"experts": []},
            r"The 'experts' parameter must be a list of different mask names. Got \[\].",
        ),
        ({"hiden": 8}, "Unknown setting of m3dphormer 'hiden'. Did you mean hidden"),
        ({"metric": "auc"}, "Unknown metric 'auc'"),
        ({"clusters": 61}, "61 clusters are more than the graph's 60 nodes"),
        ({"heads": 3}, "must divide"),
    ],
)
def test_bad_parameters_are_told_at_fit(
    parameters: dict[str, object], words: str, data: Data
) -> None:
    with pytest.raises(UserError, match=words) as caught:
        NodeClassifier(**{**SMALL, **parameters}).fit(data)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_an_unknown_part_is_refused(fitted: NodeClassifier, data: Data) -> None:
    with pytest.raises(UserError, match="'part' parameter must be one of train, val, test"):
        fitted.score(data, "tets")


@pytest.mark.parametrize("file", ["weights.safetensors", "graph.npz", "model.json"])
def test_a_damaged_or_missing_file_is_one_clear_line(
    fitted: NodeClassifier, tmp_path: Path, file: str
) -> None:
    fitted.save(tmp_path)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UserError, match="damaged") as caught:
        NodeClassifier.load(tmp_path)
    assert "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(UserError):
        NodeClassifier.load(tmp_path)


def test_a_folder_of_another_format_is_refused(fitted: NodeClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    content = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**content, "format": 99}))
    with pytest.raises(UserError, match="has format 99, this version reads 2"):
        NodeClassifier.load(tmp_path)
