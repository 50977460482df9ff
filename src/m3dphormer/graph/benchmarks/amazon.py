"""The co-purchase graphs Photo and Computers from the CSR ``.npz`` files of gnn-benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from m3dphormer.graph.benchmarks.parsed import Parsed, canonical_edges, checked_csr, reading


def read_amazon(folder: Path, file: str, *, features: bool = True) -> Parsed:
    """Read adjacency, bag of words (every positive count becomes 1, as in PyG) and labels."""
    path = folder / file
    with reading(path, "a gnn-benchmark npz file"), np.load(path, allow_pickle=False) as arrays:
        y = arrays["labels"].astype(np.int64)
        links = _matrix(arrays, "adj").tocoo()
        edges = canonical_edges(np.stack([links.row, links.col]), len(y))
        x = None
        if features:
            x = (_matrix(arrays, "attr").toarray() > 0).astype(np.float32)
        return Parsed(edges, x, y)


def _matrix(arrays: Mapping[str, np.ndarray], name: str) -> sp.csr_matrix:
    return checked_csr(
        *(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    )
