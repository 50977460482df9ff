"""The user's own files: every form gives the same graph, and every fault is told in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from doors import (
    DOORS,
    EDGES,
    IDS,
    NODES,
    arrays,
    folder,
    npz,
    parquet,
    pt,
    zipped,
)

from m3dphormer.errors import UserNotice
from m3dphormer.graph.own.arrays import from_arrays
from m3dphormer.graph.own.files import load_path


@pytest.mark.parametrize("door", DOORS)
def test_the_same_graph_comes_through_every_door(door: str, tmp_path: Path) -> None:
    data, expected = DOORS[door](tmp_path), arrays()
    for key in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(data[key], expected[key]), key
    assert data.label_names == ["10", "cat", "dog"]
    assert (data.graph_hash, data.split_hash) == (expected.graph_hash, expected.split_hash)


def test_name_and_source_say_where_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    zipped(tmp_path), npz(tmp_path), pt(tmp_path)
    sources = {
        "mygraph": "folder mygraph (nodes.csv, edges.csv)",
        "mygraph.zip": "file mygraph.zip (nodes.csv, edges.csv)",
        "mygraph.npz": "file mygraph.npz",
        "mygraph.pt": "file mygraph.pt",
    }
    for path, source in sources.items():
        data = load_path(path)
        assert (data.name, data.source) == ("mygraph", source)
    shutil.rmtree("mygraph")
    assert load_path(parquet(Path())).source == "folder mygraph (nodes.parquet, edges.parquet)"
    monkeypatch.chdir("mygraph")
    assert load_path(".").name == "mygraph"


def test_ids_and_labels_are_text_and_only_an_empty_cell_is_missing(tmp_path: Path) -> None:
    nodes = "id,label,f\n007,NA,1\n7,None,2\nNA,NA,3\nNone,None,4\n1.0,,5\nnan,NA,6\n-,None,7\n"
    data = load_path(folder(tmp_path, nodes, "source,target\n007,7\nNA,None\nnan,1.0\n"))
    assert data.node_ids == ["007", "7", "NA", "None", "1.0", "nan", "-"]
    assert data.label_names == ["NA", "None"]
    assert data.y.tolist() == [0, 1, 0, 1, -1, 0, 1]
    assert data.edge_index[:, data.edge_index[0] < data.edge_index[1]].tolist() == [
        [0, 2, 4],
        [1, 3, 5],
    ]


def test_minus_one_among_class_numbers_is_unlabelled_as_in_arrays(tmp_path: Path) -> None:
    labels = [-1, *[0, 1] * 5, 2]
    nodes = "id,label,a\n" + "".join(f"n{i},{label},{i}\n" for i, label in enumerate(labels))
    nodes += "n12,2,1\nn13,2,1\n"
    with pytest.warns(
        UserNotice, match=r"nodes\.csv: label -1 \(nodes: 1\) is taken as unlabelled"
    ):
        data = load_path(folder(tmp_path, nodes))
    assert data.y.tolist() == [*labels, 2, 2]
    assert data.label_names == ["0", "1", "2"]
    same = from_arrays(data.x, data.edge_index, [*labels, 2, 2])
    assert (same.y.tolist(), same.label_names) == (data.y.tolist(), data.label_names)
    assert not bool((data.train_mask | data.val_mask | data.test_mask)[0])


def test_without_a_split_column_the_split_is_drawn(tmp_path: Path) -> None:
    place = folder(tmp_path, NODES.drop(columns="split").to_csv(index=False))
    assert load_path(place, split=1).split_hash != load_path(place, split=0).split_hash


def test_class_numbers_do_not_depend_on_row_order(tmp_path: Path) -> None:
    data = load_path(folder(tmp_path, NODES[::-1].to_csv(index=False)))
    assert data.label_names == ["10", "cat", "dog"]
    assert data.y.flip(0).tolist() == arrays().y.tolist()


def test_bools_text_and_blank_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    frame = NODES[["id", "label"]].assign(old=[True, False] * 6, note="some, text", why="x")
    nodes = "\ufeff" + frame.to_csv(index=False).replace("n3,", "\nn3,")
    with pytest.warns(UserNotice, match="text is no feature; ignored 'note', 'why'"):
        data = load_path(folder(tmp_path, nodes, EDGES.to_csv(index=False) + "\n,\n"))
    assert data.x.tolist() == [[1.0], [0.0]] * 6
    assert data.node_ids == IDS


def test_a_graph_of_ids_and_labels_alone_gets_encodings(tmp_path: Path) -> None:
    place = folder(tmp_path, NODES[["id", "label"]].to_csv(index=False))
    with pytest.warns(UserNotice, match="mygraph: no features; degree and Laplacian"):
        assert torch.isfinite(load_path(place).x).all()


def test_edge_weights_are_ignored_with_a_notice(tmp_path: Path) -> None:
    edges = EDGES.assign(weight=1.5, kind="friend").to_csv(index=False)
    with pytest.warns(UserNotice, match="edges.csv: .* ignored 'weight', 'kind'"):
        assert torch.equal(load_path(folder(tmp_path, edges=edges)).edge_index, arrays().edge_index)


def test_a_header_alone_is_a_graph_without_edges(tmp_path: Path) -> None:
    with pytest.warns(UserNotice, match="the graph has no edges"):
        load_path(folder(tmp_path, edges="source,target\n"))
