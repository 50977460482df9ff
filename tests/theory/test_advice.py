from __future__ import annotations

import pytest
import torch

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.theory.advice import EXPERTS, Means, advise, complements
from m3dphormer.theory.clusters import choose_clusters

HOPS = {"l1": Means(100.0, 0.5), "l2": Means(10.0, 0.8)}


def test_complements_say_what_each_level_adds_to_the_best_before_it() -> None:
    gains = complements(
        {
            "local": torch.tensor([1.0, 0.0, 0.0, 0.2]),
            "cluster": torch.tensor([0.0, 1.0, 1.0, 0.2]),
            "global": torch.tensor([0.3, 0.3, 0.3, 0.3]),
        }
    )
    assert list(gains) == ["cluster", "local", "global"]
    assert list(gains.values()) == pytest.approx([0.55, 0.25, 0.025])


def test_advice_leaves_out_a_level_that_is_best_for_few() -> None:
    levels = {name: torch.rand(50) for name in ("local", "cluster", "global")}
    shares = {"local": 0.9, "cluster": 0.08, "global": 0.02}
    lines = advise(levels, torch.ones(50, dtype=torch.bool), shares, {8: 0.5, 16: 0.6}, HOPS)
    assert lines[-1] == "To start from: --set experts=l2,c4 --set clusters=16"
    assert "16 clusters complement the other levels best (of 8, 16)." in lines
    assert "take local, cluster and leave out global (for 2%): " in lines[1]
    assert "Two hops reach 10 times as many nodes" in lines[2]
    assert lines[2].endswith("take l2, not l1.")


def test_a_level_that_leads_by_its_mean_and_is_left_out_is_told() -> None:
    levels = {
        name: torch.full((50,), mean) for name, mean in zip(EXPERTS, (0.8, 0.9, 0.1), strict=True)
    }
    shares = {"local": 0.98, "cluster": 0.01, "global": 0.01}
    lines = advise(levels, torch.ones(50, dtype=torch.bool), shares, {8: 0.5}, HOPS)
    assert lines[-1] == "To start from: --set experts=l2"
    assert lines[1].startswith("The cluster level alone gives a mean consistency of 0.90; ")
    assert "take local and leave out cluster (for 1%), global (for 1%): a level " in lines[1]
    assert "for 5% of the nodes or more" in lines[1]


@pytest.mark.parametrize(
    ("share", "experts"), [(0.049, "l2,c4,g3"), (0.05, "l2,c4,g3"), (0.04, "l2,c4")]
)
def test_a_share_counts_as_it_is_printed(share: float, experts: str) -> None:
    levels = {name: torch.rand(50) for name in EXPERTS}
    shares = {"local": 0.6, "cluster": 0.4 - share, "global": share}
    lines = advise(levels, torch.ones(50, dtype=torch.bool), shares, {8: 0.5}, HOPS)
    assert lines[-1] == f"To start from: --set experts={experts} --set clusters=8"
    assert ("leave out" in lines[1]) == (experts == "l2,c4")


def test_hops_are_no_advice_where_the_settings_leave_neighbours_out() -> None:
    levels = {name: torch.rand(50) for name in EXPERTS}
    shares = {"local": 0.01, "cluster": 0.9, "global": 0.09}
    lines = advise(levels, torch.ones(50, dtype=torch.bool), shares, {8: 0.5}, HOPS)
    assert lines[2].endswith("at a consistency of 0.50 instead of 0.80.")
    assert lines[-1] == "To start from: --set experts=c4,g3 --set clusters=8"


def test_without_edges_hops_are_not_weighed() -> None:
    levels = {name: torch.rand(50) for name in ("local", "cluster", "global")}
    none = Means(0.0, float("nan"))
    hops, shares = {"l1": none, "l2": none}, dict.fromkeys(levels, 1 / 3)
    lines = advise(levels, torch.ones(50, dtype=torch.bool), shares, {8: 0.5}, hops)
    assert lines[2] == "No node has a neighbour: l1 and l2 show a node nothing but itself."


def test_a_number_of_clusters_that_is_given_is_taken() -> None:
    data = random_graph()
    chance = {"l2": torch.full((60,), 1 / 3), "g1": torch.full((60,), 1 / 3)}
    given = choose_clusters(data, data.y, 3, 7, chance)
    assert list(given.worth) == [7]
    assert given.cluster.equal(masks.assign(data, 7))
    tried = choose_clusters(data, data.y, 3, "auto", chance)
    assert len(tried.worth) == 1  # sixty nodes have room for four clusters of sixteen only
    data.cluster = torch.arange(60) % 10
    assert list(choose_clusters(data, data.y, 3, "auto", chance).worth) == [10]
