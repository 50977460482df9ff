"""One small graph through every door: files of all kinds, objects, arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from m3dphormer.errors import UserError
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
GOOD = "id,label,a,b\n" + "".join(f"n{i},{'xy'[i % 2]},{i},1\n" for i in range(N))


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
