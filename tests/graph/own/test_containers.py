"""Zip, parquet, npz and pt: what is read, and what is refused."""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from doors import (
    GOOD,
    MASKS,
    NODES,
    PAIRS,
    N,
    X,
    folder,
    npz,
    parquet,
    pt,
    pyg,
    refused,
    zipped,
)
from torch_geometric.data import Data, HeteroData

from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph.own.files import load_path


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
