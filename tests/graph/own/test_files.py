"""The user's own files: every form gives the same graph, and every fault is told in one line."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph.own.arrays import from_arrays
from m3dphormer.graph.own.files import load_path
from m3dphormer.graph.own.frames import from_frames, from_networkx
from m3dphormer.graph.own.pyg import from_data

N = 12
IDS = [f"n{i}" for i in range(N)]
LABELS = ["dog", "cat", "", *["cat", "dog", "10"] * 3]
PARTS = ["train", "train", "", "val", "test", "train", "val", "test", "val", "test", "", ""]
X = np.random.RandomState(0).randn(N, 3).astype(np.float32)
PAIRS = np.array([[i, (i * 5 + 1) % N] for i in range(N)])
NODES = pd.DataFrame({"id": IDS, "label": LABELS, "split": PARTS, "a": X[:, 0], "b": X[:, 1]})
NODES["c"] = X[:, 2]
EDGES = pd.DataFrame({"source": [IDS[s] for s, _ in PAIRS], "target": [IDS[t] for _, t in PAIRS]})
MASKS = [np.array([part == wanted for part in PARTS]) for wanted in ("train", "val", "test")]


def folder(path: Path, nodes: str | bytes | None = None, edges: str | bytes | None = None) -> Path:
    """A folder of csv files: those of the sample graph unless others are given."""
    place = path / "mygraph"
    place.mkdir()
    for name, given, sample in (("nodes", nodes, NODES), ("edges", edges, EDGES)):
        content = sample.to_csv(index=False) if given is None else given
        content = content.encode() if isinstance(content, str) else content
        (place / f"{name}.csv").write_bytes(content)
    return place


def zipped(path: Path, inside: str = "") -> Path:
    place = path / "mygraph.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder(path).iterdir()):
            archive.write(file, f"{inside}{file.name}")
    return place


def parquet(path: Path) -> Path:
    place = path / "mygraph"
    place.mkdir()
    NODES.to_parquet(place / "nodes.parquet")
    EDGES.to_parquet(place / "edges.parquet")
    return place


def npz(path: Path, **arrays: Any) -> Path:
    masks = dict(zip(("train_masks", "val_masks", "test_masks"), MASKS, strict=True))
    content = {
        "node_features": X,
        "node_labels": np.array(LABELS),
        "edges": PAIRS,
        **{key: np.stack([mask, mask]) for key, mask in masks.items()},
    }
    content |= arrays
    np.savez(path / "mygraph.npz", **{k: v for k, v in content.items() if v is not None})
    return path / "mygraph.npz"


def pyg(**attributes: Any) -> Data:
    names = ["10", "cat", "dog"]
    y = torch.tensor([names.index(label) if label else -1 for label in LABELS])
    masks = dict(
        zip(("train_mask", "val_mask", "test_mask"), map(torch.tensor, MASKS), strict=True)
    )
    edge_index = torch.from_numpy(PAIRS.T)
    return Data(
        x=torch.from_numpy(X), edge_index=edge_index, y=y, label_names=names, **masks, **attributes
    )


def pt(path: Path, content: Any = None, **options: Any) -> Path:
    torch.save(pyg() if content is None else content, path / "mygraph.pt", **options)
    return path / "mygraph.pt"


def networkx() -> nx.Graph:
    graph = nx.Graph()
    for i, node in enumerate(IDS):
        graph.add_node(node, label=LABELS[i] or None, split=PARTS[i], x=X[i])
    graph.add_edges_from(EDGES.itertuples(index=False))
    return graph


def arrays() -> Data:
    train, val, test = MASKS
    return from_arrays(X, PAIRS.T, LABELS, train=train, val=val, test=test)


DOORS: dict[str, Callable[[Path], Data]] = {
    "folder": lambda path: load_path(folder(path)),
    "zip": lambda path: load_path(zipped(path)),
    "zip with a folder": lambda path: load_path(zipped(path, "mygraph/")),
    "parquet": lambda path: load_path(parquet(path)),
    "npz": lambda path: load_path(npz(path), split=1),
    "pt": lambda path: load_path(pt(path)),
    "pt of a finished graph": lambda path: load_path(pt(path, from_data(pyg()))),
    "frames": lambda _: from_frames(NODES, EDGES),
    "networkx": lambda _: from_networkx(networkx()),
    "arrays": lambda _: arrays(),
    "data": lambda _: from_data(pyg()),
}


def refused(path: str | Path, *parts: str) -> None:
    """Loading is refused in one line that holds all parts."""
    with pytest.raises(UserError) as caught:
        load_path(path)
    line = str(caught.value)
    assert "\n" not in line
    for part in parts:
        assert part in line


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


GOOD = "id,label,a,b\n" + "".join(f"n{i},{'xy'[i % 2]},{i},1\n" for i in range(N))


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [
        (GOOD.replace("id,", "node,"), ["nodes.csv", "'id' is missing", "'node', 'label', 'a'"]),
        (GOOD.replace("label", "class"), ["nodes.csv", "'label' is missing", "'id', 'class'"]),
        (GOOD.replace(",", ";"), ["'id' is missing", "'id;label;a;b'"]),
        (GOOD.replace("n3,", "n1,"), ["nodes.csv line 5", "id 'n1'", "line 3"]),
        (GOOD.replace("n3,", ","), ["nodes.csv line 5", "id is missing"]),
        (GOOD.replace("n3,", "\nn1,"), ["nodes.csv line 6", "id 'n1'", "line 3"]),
        (GOOD.replace("n3,y,3", "n3,y,old"), ["line 5", "'a' of node 'n3' is 'old'"]),
        (GOOD.replace("n3,y,3", "n3,y,NA"), ["line 5", "'a' of node 'n3' is 'NA'"]),
        (GOOD.replace("n3,y,3", "n3,y,"), ["line 5", "'a' of node 'n3' is empty"]),
        (GOOD.replace("n3,y,3", "n3,y,nan"), ["line 5", "'a' of node 'n3' is empty, NaN"]),
        (GOOD.replace("n3,y,3", "n3,y,-inf"), ["line 5", "'a' of node 'n3' is", "infinite"]),
        (GOOD.replace("n3,y,3,1", "n3,y,3"), ["line 5", "unequal length", "3 cells", "has 4"]),
        (GOOD.replace("n3,y,3,1", "n3,y,3,1,1"), ["line 5", "unequal length", "5 cells", "has 4"]),
        (GOOD.replace(",1\n", ",1,2\n"), ["line 2", "unequal length", "5 cells", "has 4"]),
        (GOOD.replace("n3,y,3,1", 'n3,y,3,"1'), ["nodes.csv"]),
        (GOOD.replace("a,b", "split,b"), ["line 2", "split '0' is not train, val or test"]),
        (GOOD.replace(",x,", ",y,"), ["all labels are 'y'"]),
        (GOOD.replace(",x,", ",,").replace(",y,", ",,"), ["no node has a label"]),
        ("id,label,a\n", ["the graph is empty"]),
        ("", ["nodes.csv is empty", "header"]),
        (" \n\n", ["nodes.csv is empty", "header"]),
        (bytes(range(256)) * 40, ["nodes.csv is not UTF-8 text"]),
        (b"id\0,label\n", ["nodes.csv is not UTF-8 text"]),
        (GOOD.replace("x", "é").encode("latin-1"), ["nodes.csv is not UTF-8 text"]),
        (GOOD.encode("utf-16"), ["nodes.csv is not UTF-8 text"]),
    ],
)
def test_bad_nodes_are_refused_by_line(
    nodes: str | bytes, parts: list[str], tmp_path: Path
) -> None:
    refused(folder(tmp_path, nodes), *parts)


@pytest.mark.parametrize(
    ("edges", "parts"),
    [
        ("source,target\nn0,n1\nn0,n99\n", ["edges.csv line 3", "no node has the id 'n99'"]),
        ("source,target\nn0,\n", ["edges.csv line 2", "an edge needs two ends"]),
        ("source,target\nn0\n", ["edges.csv line 2", "unequal length"]),
        ("source,target\nn0,n1,n2\n", ["edges.csv line 2", "unequal length"]),
        ("source\nn0\n", ["edges.csv", "two columns, source and target", "'source'"]),
        ("n0,n1\nn1,n2\n", ["edges.csv line 1 is an edge", "source,target"]),
        ("", ["edges.csv is empty"]),
        (b"\xff\xfe\x00garbage", ["edges.csv is not UTF-8 text"]),
    ],
)
def test_bad_edges_are_refused_by_line(
    edges: str | bytes, parts: list[str], tmp_path: Path
) -> None:
    refused(folder(tmp_path, edges=edges), *parts)


def test_a_class_without_a_training_node_in_the_given_split_is_refused(tmp_path: Path) -> None:
    nodes = NODES.assign(
        split=["val" if label == "10" else part for label, part in zip(LABELS, PARTS, strict=True)]
    )
    refused(folder(tmp_path, nodes.to_csv(index=False)), "class '10' has no training node")


def test_a_large_graph_loads_in_seconds(tmp_path: Path) -> None:
    rng = np.random.RandomState(0)
    nodes = pd.DataFrame(rng.rand(20_000, 16).round(4)).add_prefix("f")
    nodes = nodes.assign(id=[f"node {i}" for i in nodes.index], label=rng.randint(5, size=20_000))
    ends = rng.randint(20_000, size=(200_000, 2))
    edges = "source,target\n" + "".join(f"node {s},node {t}\n" for s, t in ends)
    place = folder(tmp_path, nodes.to_csv(index=False), edges)
    start = time.perf_counter()
    assert load_path(place).x.shape == (20_000, 16)
    assert time.perf_counter() - start < 5


def test_a_path_that_does_not_exist_or_is_no_graph_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "gone.npz", "gone.npz does not exist", "a folder or .zip")
    refused(tmp_path, "needs nodes.csv and edges.csv", "Found no files")
    (tmp_path / "notes.txt").write_text("hello")
    refused(tmp_path, "needs nodes.csv and edges.csv", "Found notes.txt")
    refused(tmp_path / "notes.txt", "notes.txt has no known form", "a folder or .zip")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything is readable to root")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "nodes.csv").chmod(0)
    refused(place, "cannot be read: Permission denied")


def test_a_zip_is_read_past_the_folders_of_other_systems(tmp_path: Path) -> None:
    place = zipped(tmp_path, "deep/mygraph/")
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr("__MACOSX/mygraph/._nodes.csv", "x")
        archive.writestr("README.txt", "mine")
    before = sorted(tmp_path.rglob("*"))
    assert torch.equal(load_path(place).x, torch.from_numpy(X))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_zip_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    whole = zipped(tmp_path).read_bytes()
    bad = tmp_path / "bad.zip"
    for content in (whole[: len(whole) // 2], b"", b"garbage" * 99):
        bad.write_bytes(content)
        refused(bad, "bad.zip is truncated or not a readable .zip")
    damaged = bytearray(whole)
    damaged[60:160] = bytes(100)
    bad.write_bytes(damaged)
    refused(bad, "bad.zip is truncated or not a readable .zip")
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("a/nodes.csv", GOOD)
        archive.writestr("b/edges.csv", "source,target\n")
    refused(bad, "bad.zip needs nodes.csv and edges.csv", "Found nodes.csv")


def test_parquet_without_its_extra_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = parquet(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(place, "needs the 'parquet' extra: pip install 'm3dphormer[parquet]'")


def test_parquet_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    place = parquet(tmp_path)
    nodes = place / "nodes.parquet"
    whole = nodes.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"garbage" * 99):
        nodes.write_bytes(content)
        refused(place, "nodes.parquet is truncated or not a parquet file")
    NODES.assign(a=[*X[:-1, 0], np.nan]).to_parquet(nodes)
    refused(place, "nodes.parquet row 11", "'a' of node 'n11' is empty")


def test_npz_masks_and_features_are_optional(tmp_path: Path) -> None:
    place = npz(tmp_path, train_masks=None, val_masks=None, test_masks=None)
    assert load_path(place).train_mask.sum() == 6
    with pytest.warns(UserNotice, match="no features"):
        load_path(npz(tmp_path, node_features=None))


def test_npz_splits_are_taken_by_number(tmp_path: Path) -> None:
    masks = {
        f"{part}_masks": np.stack([mask, np.roll(mask, 3)])
        for part, mask in zip(("train", "val", "test"), MASKS, strict=True)
    }
    place = npz(tmp_path, **masks, node_labels=np.arange(N) % 2)
    assert load_path(place, split=1).test_mask.tolist() == np.roll(MASKS[2], 3).tolist()
    with pytest.raises(UserError, match="Split 2 does not exist"):
        load_path(place, split=2)


def test_npz_arrays_of_no_use_are_ignored_with_a_notice(tmp_path: Path) -> None:
    with pytest.warns(UserNotice, match="mygraph.npz: ignored edge_weights"):
        load_path(npz(tmp_path, edge_weights=np.ones(N)))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"node_labels": None}, "has no node_labels"),
        ({"edges": None}, "has no edges"),
        ({"node_labels": np.array([{}] * N)}, "holds Python objects"),
        ({"edges": PAIRS + N}, "edges name nodes that do not exist"),
        ({"edges": PAIRS.T}, "edges must be pairs of node positions, [m, 2]. Got [2, 12]"),
        ({"val_masks": None}, "the split has no val mask"),
        ({"train_masks": MASKS[0][None, :5]}, "train mask must have shape"),
        ({"node_features": X * np.nan}, "feature values are NaN or infinite"),
    ],
)
def test_an_npz_that_cannot_be_used_is_refused(
    change: dict[str, Any], part: str, tmp_path: Path
) -> None:
    refused(npz(tmp_path, **change), "mygraph", part)


def test_a_foreign_or_truncated_npz_is_refused(tmp_path: Path) -> None:
    whole = npz(tmp_path).read_bytes()
    bad = tmp_path / "bad.npz"
    single = io.BytesIO()
    np.save(single, X)
    for content in (whole[: len(whole) // 2], b"", b"garbage" * 99, single.getvalue()):
        bad.write_bytes(content)
        refused(bad, "bad.npz is truncated or not an .npz file")
    np.savez(bad, x=X, adj=PAIRS)
    refused(bad, "bad.npz has no node_labels", "Found adj, x")
    bad.write_bytes(pickle.dumps(Intruder(tmp_path / "pwned")))
    refused(bad, "bad.npz")
    assert not (tmp_path / "pwned").exists()


class Intruder:
    """Runs a command in whoever unpickles it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.mark}'",)


@pytest.mark.parametrize("zipfile_form", [True, False])
def test_both_forms_of_torch_save_are_read(zipfile_form: bool, tmp_path: Path) -> None:
    place = pt(tmp_path, _use_new_zipfile_serialization=zipfile_form)
    assert torch.equal(load_path(place).x, torch.from_numpy(X))


@pytest.mark.parametrize("form", ["data", "old data", "dict", "pickle 2", "pickle 4"])
def test_a_pickle_that_wants_to_import_is_refused_by_name_and_nothing_of_it_runs(
    form: str, tmp_path: Path
) -> None:
    intruder = Intruder(tmp_path / "pwned")
    if form.startswith("pickle"):
        place = tmp_path / "mygraph.pt"
        place.write_bytes(pickle.dumps({"a": intruder}, protocol=int(form[-1])))
    else:
        content = {"a": intruder} if form == "dict" else pyg(note=intruder)
        place = pt(tmp_path, content, _use_new_zipfile_serialization=form != "old data")
    refused(place, f"mygraph.pt wants to import {os.system.__module__}.system", "nothing of it")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (HeteroData(), "wants to import torch_geometric.data.storage.BaseStorage"),
        (pyg(note=np.float64(1)), "wants to import numpy"),
        ((pyg(), None), "holds a tuple, not a PyG Data"),
        ({"x": torch.ones(3)}, "holds a dict, not a PyG Data"),
        (torch.ones(3), "holds a Tensor, not a PyG Data"),
        (Data(x=torch.ones(3, 1)), "the Data has no edge_index"),
    ],
)
def test_a_pt_of_something_else_is_refused(content: Any, part: str, tmp_path: Path) -> None:
    refused(pt(tmp_path, content), "mygraph", part)


def test_a_truncated_or_foreign_pt_is_refused(tmp_path: Path) -> None:
    whole = pt(tmp_path).read_bytes()
    bad = tmp_path / "bad.pt"
    for content in (whole[: len(whole) // 2], b"", b"garbage" * 99, pickle.dumps([1], protocol=4)):
        bad.write_bytes(content)
        refused(bad, "bad.pt is truncated or not a PyG Data")
