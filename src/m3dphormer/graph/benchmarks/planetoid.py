"""The citation graphs Cora, CiteSeer and PubMed from the Planetoid pickles ``ind.<name>.*``."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from m3dphormer.graph.benchmarks.parsed import Parsed, canonical_edges, reading
from m3dphormer.graph.benchmarks.unpickle import CsrState, unpickle

PARTS = ("allx", "ally", "tx", "ty", "graph", "test.index")


def planetoid_files(name: str) -> tuple[str, ...]:
    """The files that hold all nodes (``x`` and ``y``, the public training rows, repeat some)."""
    return tuple(f"ind.{name}.{part}" for part in PARTS)


def read_planetoid(folder: Path, name: str, *, features: bool = True) -> Parsed:
    """Put training and test rows together in the order that the graph file counts nodes.

    Test nodes that the test index skips (15 in CiteSeer) have no rows in the files: they get zero
    features and class 0, as in PyG.

    Args:
        folder: Where ``ind.<name>.*`` lie.
    """
    test_index = _read_test_index(folder / f"ind.{name}.test.index")
    y = _join(folder, name, "ally", "ty", test_index).argmax(axis=1)
    x = _join(folder, name, "allx", "tx", test_index) if features else None
    return Parsed(_read_edges(folder / f"ind.{name}.graph", len(y)), x, y.astype(np.int64))


def _join(folder: Path, name: str, known: str, test: str, test_index: np.ndarray) -> np.ndarray:
    """Rows of ``known``, then row k of ``test`` at node ``test_index[k]``: [N, columns]."""
    known_rows = _read_matrix(folder / f"ind.{name}.{known}")
    path = folder / f"ind.{name}.{test}"
    test_rows = _read_matrix(path)
    with reading(path, "a Planetoid file"):
        size = max(len(known_rows), int(test_index.max()) + 1)
        joined = np.zeros((size, known_rows.shape[1]), np.float32)
        joined[: len(known_rows)] = known_rows
        joined[test_index] = test_rows
        return joined


def _read_matrix(path: Path) -> np.ndarray:
    with reading(path, "a Planetoid file"):
        matrix: Any = unpickle(path)
        dense = np.asarray(matrix.dense() if isinstance(matrix, CsrState) else matrix, np.float32)
        if dense.ndim != 2:
            raise ValueError("not a matrix")
        return dense


def _read_test_index(path: Path) -> np.ndarray:
    with reading(path, "a Planetoid file"):
        index = np.array(path.read_text(encoding="ascii").split(), dtype=np.int64)
        if len(index) == 0 or index.min() < 0 or len(np.unique(index)) < len(index):
            raise ValueError("not a list of nodes")
        return index


def _read_edges(path: Path, num_nodes: int) -> np.ndarray:
    with reading(path, "a Planetoid file"):
        neighbours: dict[int, list[int]] = unpickle(path)
        lengths = [len(row) for row in neighbours.values()]
        sources = np.repeat(np.fromiter(neighbours, np.int64), lengths)
        targets = np.fromiter(chain.from_iterable(neighbours.values()), np.int64)
        return canonical_edges(np.stack([sources, targets]), num_nodes)
