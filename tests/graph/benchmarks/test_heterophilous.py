from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks.heterophilous import read_heterophilous


def save(path: Path) -> None:
    masks = np.eye(3, dtype=bool)
    np.savez(
        path,
        node_features=np.ones((3, 2), np.float64),
        node_labels=np.array([0, 1, 1], np.int32),
        edges=np.array([[2, 0], [0, 1]]),
        train_masks=masks[:2],
        val_masks=masks[[1, 2]],
        test_masks=masks[[2, 0]],
    )


def test_edges_labels_and_splits_are_read(tmp_path: Path) -> None:
    save(tmp_path / "a.npz")
    parsed = read_heterophilous(tmp_path, "a.npz")
    assert parsed.edges.T.tolist() == [[0, 1], [0, 2]]
    assert parsed.x is not None
    assert (parsed.x.dtype, parsed.y.dtype) == (np.float32, np.int64)
    assert parsed.splits is not None
    second = parsed.splits.make(parsed.y, 1)
    assert [np.flatnonzero(part).tolist() for part in (second.train, second.val, second.test)] == [
        [1],
        [2],
        [0],
    ]
    with pytest.raises(UserError, match="Split 2 does not exist"):
        parsed.splits.make(parsed.y, 2)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"text", b"\x93NUMPY\x01\x00"])
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(UserError, match="is truncated or not a heterophilous-graphs npz") as caught:
        read_heterophilous(tmp_path, "a.npz")
    assert "\n" not in str(caught.value)


def test_an_npz_with_other_keys_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", node_labels=np.arange(3))
    with pytest.raises(UserError, match="is truncated or not a heterophilous-graphs npz file"):
        read_heterophilous(tmp_path, "a.npz")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.95])
def test_a_truncated_file_is_refused(data_root: Path, tmp_path: Path, keep: float) -> None:
    content = (data_root / "minesweeper/raw/minesweeper.npz").read_bytes()
    (tmp_path / "minesweeper.npz").write_bytes(content[: int(keep * len(content))])
    with pytest.raises(UserError, match=r"minesweeper\.npz is truncated"):
        read_heterophilous(tmp_path, "minesweeper.npz")
