"""Counting the cuts of a mask gives what cutting it gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from graphs import random_graph, two_masks
from m3dphormer import masks
from m3dphormer.attention.dual import dual_regions
from m3dphormer.attention.planner.cuts import cuts_of
from m3dphormer.masks import Mask


@pytest.mark.filterwarnings("ignore::m3dphormer.errors.UserNotice")
@settings(max_examples=60)
@given(two_masks())
def test_shapes_and_pairs_are_those_of_the_dual_scheme(pair: tuple[Mask, Mask]) -> None:
    for mask in pair:
        cut = [(cut.shape, cut.nnz, cut.density) for cut in cuts_of(mask)]
        regions = dual_regions(mask)
        assert cut == [(r.shape, len(r.columns), r.density) for r in regions]


def test_a_full_mask_is_counted_without_its_pairs() -> None:
    data = random_graph(60)
    data.num_nodes = 10**6  # 10^12 pairs
    (cut,) = cuts_of(masks.g1(data))
    assert (cut.shape, cut.nnz, cut.full) == ((10**6, 10**6), 10**12, True)
