from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from torch_geometric.io import read_planetoid_data
from torch_geometric.utils import to_undirected

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks.planetoid import PARTS, planetoid_files, read_planetoid


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Three known nodes and test nodes 3 and 5, in the order 5, 3; node 4 has no row."""
    parts = {
        "allx": sp.csr_matrix(np.eye(3, 2, dtype=np.float32)),
        "ally": np.eye(3, dtype=np.int32),
        "tx": sp.csr_matrix(np.array([[5.0, 5.0], [3.0, 3.0]], np.float32)),
        "ty": np.array([[0, 0, 1], [0, 1, 0]], np.int32),
        "graph": {0: [1, 1, 0], 1: [0], 2: [5], 3: [], 4: [], 5: [2]},
    }
    for part, value in parts.items():
        (tmp_path / f"ind.tiny.{part}").write_bytes(pickle.dumps(value, 4))
    (tmp_path / "ind.tiny.test.index").write_text("5\n3\n")
    return tmp_path


def test_test_rows_go_to_their_nodes_and_skipped_ones_are_zero(tiny: Path) -> None:
    parsed = read_planetoid(tiny, "tiny")
    assert parsed.x is not None
    assert parsed.x.tolist() == [[1, 0], [0, 1], [0, 0], [3, 3], [0, 0], [5, 5]]
    assert parsed.y.tolist() == [0, 1, 2, 1, 0, 2]
    assert parsed.edges.T.tolist() == [[0, 1], [2, 5]]


@pytest.mark.parametrize(
    ("name", "folder"), [("cora", "Cora"), ("citeseer", "CiteSeer"), ("pubmed", "PubMed")]
)
def test_arrays_equal_those_of_pyg(data_root: Path, name: str, folder: str) -> None:
    parsed = read_planetoid(data_root / folder / "raw", name)
    data = read_planetoid_data(str(data_root / folder / "raw"), name)
    edges = to_undirected(data.edge_index)
    assert np.array_equal(parsed.x, data.x.numpy())
    assert np.array_equal(parsed.y, data.y.numpy())
    assert np.array_equal(parsed.edges, edges[:, edges[0] < edges[1]].numpy())


def test_citeseer_has_15_papers_without_words(data_root: Path) -> None:
    parsed = read_planetoid(data_root / "CiteSeer" / "raw", "citeseer")
    assert parsed.x is not None
    test_index = (data_root / "CiteSeer/raw/ind.citeseer.test.index").read_text().split()
    skipped = set(range(2312, 3327)) - set(map(int, test_index))
    assert len(skipped) == 15
    assert not parsed.x[sorted(skipped)].any()


@pytest.mark.parametrize("part", [part for part in PARTS if part != "test.index"])
@pytest.mark.parametrize("keep", [0, 0.5, 0.99])
def test_a_truncated_file_is_named_in_one_line(
    data_root: Path, tmp_path: Path, part: str, keep: float
) -> None:
    for file in planetoid_files("cora"):
        shutil.copyfile(data_root / "Cora" / "raw" / file, tmp_path / file)
    path = tmp_path / f"ind.cora.{part}"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(
        UserError, match=rf"ind\.cora\.{part} is truncated or not a Planet"
    ) as caught:
        read_planetoid(tmp_path, "cora")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("content", [b"<html>no</html>", pickle.dumps([1, "a"]), b"9" * 30, b"-1"])
def test_a_foreign_file_is_named_in_one_line(tiny: Path, part: str, content: bytes) -> None:
    (tiny / f"ind.tiny.{part}").write_bytes(content)
    with pytest.raises(UserError, match=r"ind\.tiny\.[\w.]+ is truncated or not a Planetoid file"):
        read_planetoid(tiny, "tiny")
