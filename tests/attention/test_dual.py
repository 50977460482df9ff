"""How ``dual`` cuts the masks of the paper, and which form Proposition 2 takes."""

from __future__ import annotations

import pytest
import torch

from graphs import random_graph
from m3dphormer.attention.dual import dual_regions
from m3dphormer.masks import Mask, c3, c4, g1, g2, g3, l2

N, P, C = 60, 6, 3


def shapes(mask: Mask) -> list[tuple[int, int]]:
    return [region.shape for region in dual_regions(mask)]


def test_regions_are_those_of_the_paper() -> None:
    data = random_graph(N, C)
    trained = torch.bincount(data.y[data.train_mask]).tolist()
    assert shapes(l2(data)) == [(N, N)]
    assert shapes(c4(data, P)) == [(N, N + P), (P, N)]
    assert shapes(c4(data, P, self_loops=True)) == [(N, N + P), (P, N + P)]
    assert shapes(g3(data)) == [(N, C), *((1, count) for count in trained)]
    assert shapes(g1(data)) == [(N, N)]
    assert shapes(g2(data, 2)) == [(N, 2), (2, N)]


def test_blocks_of_c3_are_regions_of_their_own() -> None:
    data = random_graph(N, C)
    sizes = torch.bincount(c4(data, P).regions[1].group).tolist()  # type: ignore[attr-defined]
    assert shapes(c3(data, P)) == [(size, size) for size in sizes]


def test_regions_that_share_rows_are_computed_together() -> None:
    data = random_graph(N, C)
    assert shapes(l2(data) | c3(data, P)) == [(N, N)]
    assert shapes(l2(data) | g3(data))[0] == (N, N + C)


@pytest.mark.parametrize("width", [1, 4, 64])
def test_a_region_is_sparse_below_one_over_three_head_widths(width: int) -> None:
    data = random_graph(N, C)
    for mask in (l2(data), c4(data, P), g3(data)):
        for region in dual_regions(mask):
            density = len(region.columns) / (region.shape[0] * region.shape[1])
            assert region.density == density
            assert region.sparser(width) == (density < 1 / (3 * width))


def test_full_regions_need_no_mask() -> None:
    assert all(region.seen is None for region in dual_regions(g3(random_graph(N, C))))
