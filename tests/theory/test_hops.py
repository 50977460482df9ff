from __future__ import annotations

from pathlib import Path

import pytest

from graphs import random_graph
from m3dphormer.graph import load
from m3dphormer.masks import l1
from m3dphormer.theory import consistency_by_hop


def test_the_means_are_those_of_l1() -> None:
    data = random_graph()
    for hop in consistency_by_hop(data, 3, all_labels=True):
        mask = l1(data, hop.hops)
        assert hop.receptive_field == pytest.approx(mask.receptive_field().double().mean().item())
        share = mask.label_consistency(data, all_labels=True).nanmean().item()
        assert hop.label_consistency == pytest.approx(share)


def test_on_cora_each_hop_reaches_more_and_agrees_less(data_root: Path) -> None:
    hops = consistency_by_hop(load("cora", root=data_root), 4, all_labels=True)
    reached, share = [hop.receptive_field for hop in hops], [hop.label_consistency for hop in hops]
    assert reached == sorted(reached)
    assert share == sorted(share, reverse=True)
    assert share[0] > 0.8 > 0.6 > share[3]
