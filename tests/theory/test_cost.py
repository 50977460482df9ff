from __future__ import annotations

import pytest

from m3dphormer.attention.dual import dual_regions
from m3dphormer.graph import load
from m3dphormer.masks import g3, l2
from m3dphormer.theory import cost


@pytest.mark.parametrize("head_width", [8, 16, 32])
def test_the_memory_threshold_is_where_both_forms_keep_the_same(head_width: int) -> None:
    rows, heads = 9_600, 4
    nnz = cost.memory_threshold(head_width) * rows**2
    assert cost.dense_memory(rows, heads) == pytest.approx(
        cost.sparse_memory(round(nnz), heads, head_width)
    )


def test_the_time_threshold_is_where_both_forms_multiply_as_often() -> None:
    rows, width = 100, 64
    nnz = int(cost.TIME_THRESHOLD * rows**2)
    assert cost.dense_time(rows, width) == cost.sparse_time(rows, nnz, width)
    assert cost.sparse_time(rows, nnz - 1, width) < cost.dense_time(rows, width)


def test_the_dual_scheme_decides_by_the_same_threshold() -> None:
    data = load("hierarchy")
    regions = [*dual_regions(l2(data)), *dual_regions(g3(data))]
    chosen = [region.sparser(16) for region in regions]
    assert chosen == [region.density < cost.memory_threshold(16) for region in regions]
    assert len(set(chosen)) == 2


def test_the_papers_dense_transformer_takes_21_gb_on_pubmed() -> None:
    found = cost.dense_transformer_bytes(19_717, layers=2, heads=2)
    assert round(found / 1e9) == 21
    assert cost.dense_memory(19_717, heads=2) * 2 * 4 < found  # scores and weights, two layers
