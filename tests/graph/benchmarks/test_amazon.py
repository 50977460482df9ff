from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from torch_geometric.io import read_npz
from torch_geometric.utils import to_undirected

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks.amazon import read_amazon


def save(path: Path, **changes: np.ndarray) -> None:
    adjacency = sp.csr_matrix(np.array([[1, 2, 0], [0, 0, 0], [0, 1, 0]], np.float32))
    words = sp.csr_matrix(np.array([[3, 0], [0, 1], [0, 0]], np.float32))
    arrays: dict[str, np.ndarray] = {"labels": np.array([1, 0, 1])}
    for name, matrix in {"adj": adjacency, "attr": words}.items():
        arrays |= {
            f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")
        }
        arrays[f"{name}_shape"] = np.array(matrix.shape)
    np.savez(path, **(arrays | changes))


def test_counts_become_ones_and_links_undirected(tmp_path: Path) -> None:
    save(tmp_path / "a.npz")
    parsed = read_amazon(tmp_path, "a.npz")
    assert parsed.x is not None
    assert parsed.x.tolist() == [[1, 0], [0, 1], [0, 0]]
    assert parsed.edges.T.tolist() == [[0, 1], [1, 2]]
    assert parsed.y.tolist() == [1, 0, 1]
    assert read_amazon(tmp_path, "a.npz", features=False).x is None


@pytest.mark.parametrize("name", ["photo", "computers"])
def test_arrays_equal_those_of_pyg(data_root: Path, name: str) -> None:
    folder, file = data_root / name.capitalize() / "raw", f"amazon_electronics_{name}.npz"
    parsed, data = read_amazon(folder, file), read_npz(str(folder / file))
    edges = to_undirected(data.edge_index)
    assert np.array_equal(parsed.x, data.x.numpy())
    assert np.array_equal(parsed.y, data.y.numpy())
    assert np.array_equal(parsed.edges, edges[:, edges[0] < edges[1]].numpy())


@pytest.mark.parametrize(
    "changes",
    [
        {"attr_indices": np.array([0, 9], np.int32)},
        {"adj_indices": np.array([0, 1, 9], np.int32)},
        {"adj_indptr": np.array([0, 1], np.int32)},
        {"labels": np.array([{}, 1, 2], object)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, np.ndarray]) -> None:
    save(tmp_path / "a.npz", **changes)
    with pytest.raises(UserError, match=r"a\.npz is truncated or not a gnn-benchmark npz file"):
        read_amazon(tmp_path, "a.npz")


@pytest.mark.parametrize("keep", [0, 10, 300])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: float) -> None:
    save(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:keep])
    with pytest.raises(UserError, match=r"a\.npz is truncated") as caught:
        read_amazon(tmp_path, "a.npz")
    assert "\n" not in str(caught.value)
