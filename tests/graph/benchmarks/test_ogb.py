from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks.ogb import CATEGORIES, FEATURES, FILES, read_arxiv

TINY = {
    "raw/edge.csv.gz": "0,1\n1,0\n2,2\n2,1\n",
    "raw/node-label.csv.gz": "1\n0\n1\n",
    "split/time/train.csv.gz": "0\n",
    "split/time/valid.csv.gz": "2\n",
    "split/time/test.csv.gz": "1\n",
    FEATURES: (",".join(["0.5"] * 128) + "\n") * 3,
    CATEGORIES: "label idx,arxiv category\n1,arxiv cs lg\n0,arxiv cs ai\n",
}


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    for file, text in TINY.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))
    return tmp_path


def test_tables_become_arrays(tiny: Path) -> None:
    parsed = read_arxiv(tiny)
    assert parsed.edges.T.tolist() == [[0, 1], [1, 2]]
    assert parsed.y.tolist() == [1, 0, 1]
    assert parsed.x is not None
    assert np.array_equal(parsed.x, np.full((3, 128), 0.5, np.float32))
    assert parsed.splits is not None
    assert parsed.splits.val.tolist() == [False, False, True]
    assert parsed.label_names == ["arxiv cs ai", "arxiv cs lg"]


def test_features_and_category_names_are_not_needed(tiny: Path) -> None:
    (tiny / FEATURES).unlink()
    (tiny / CATEGORIES).unlink()
    parsed = read_arxiv(tiny, features=False)
    assert parsed.x is None
    assert parsed.label_names is None


@pytest.mark.parametrize("file", [*FILES, FEATURES, CATEGORIES])
@pytest.mark.parametrize("damage", ["truncated", "text", "header", "columns"])
def test_a_damaged_file_is_named_in_one_line(tiny: Path, file: str, damage: str) -> None:
    path = tiny / file
    content = {
        "truncated": path.read_bytes()[:-12],
        "text": b"not gzip",
        "header": gzip.compress(b"node,label\n"),
        "columns": gzip.compress(b"0,1,2\n"),
    }[damage]
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"\.csv\.gz is truncated or not an OGB csv\.gz") as caught:
        read_arxiv(tiny)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_edges_to_papers_that_do_not_exist_are_refused(tiny: Path) -> None:
    (tiny / "raw/edge.csv.gz").write_bytes(gzip.compress(b"0,3\n"))
    with pytest.raises(UserError, match=r"edge\.csv\.gz is truncated or not"):
        read_arxiv(tiny)
