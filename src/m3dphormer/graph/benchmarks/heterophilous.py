"""Filtered Chameleon and Squirrel, and Minesweeper, from the heterophilous-graphs npz files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from m3dphormer.graph.benchmarks.parsed import Parsed, canonical_edges, reading
from m3dphormer.graph.splits import GivenSplit


def read_heterophilous(folder: Path, file: str, *, features: bool = True) -> Parsed:
    """Read edges, features, labels and the ten official splits."""
    path = folder / file
    kind = "a heterophilous-graphs npz file"
    with reading(path, kind), np.load(path, allow_pickle=False) as arrays:
        y = arrays["node_labels"].astype(np.int64)
        parts = ("train_masks", "val_masks", "test_masks")
        masks = [np.ascontiguousarray(arrays[part].T, dtype=bool) for part in parts]  # [N, 10]
        return Parsed(
            edges=canonical_edges(arrays["edges"].T, len(y)),
            x=arrays["node_features"].astype(np.float32) if features else None,
            y=y,
            splits=GivenSplit(*masks),
        )
