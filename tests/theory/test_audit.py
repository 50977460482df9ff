from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph import hierarchy, load
from m3dphormer.graph.raw import finish
from m3dphormer.masks.mask import LEVELS
from m3dphormer.theory import audit, audit_tables, load_for_audit, node_table


@pytest.mark.parametrize("all_labels", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_right_level_is_named_for_nine_in_ten_nodes_of_each_group(
    seed: int, all_labels: bool
) -> None:
    data = finish(hierarchy(seed=seed), split=seed)
    named = audit(data, all_labels=all_labels).level
    assert bool((named >= 0).equal(data.train_mask | torch.tensor(all_labels)))
    for group in range(len(LEVELS)):
        of_group = named[(named >= 0) & (data.level == group)]
        assert (of_group == group).double().mean() >= 0.9


def test_the_numbers_are_those_of_the_masks() -> None:
    data = random_graph(nodes=120)
    found = audit(data, clusters=6, all_labels=True)
    assert set(found.masks) >= {"l1", "l2", "c1", "c2", "c3", "c4", "g1", "g2", "g3"}
    for name, one in found.masks.items():
        mask = masks.build_from(name, data, {"clusters": 6})
        assert (one.nnz, one.density) == (mask.nnz, mask.density)
        reached = np.quantile(mask.receptive_field().numpy(), [0.25, 0.5, 0.75])
        assert one.receptive_field == pytest.approx(reached.tolist())
        share = mask.label_consistency(data, all_labels=True)
        share = share[~share.isnan()].numpy()
        assert one.unlabelled == pytest.approx(1 - len(share) / 120)
        if one.label_consistency is None:
            assert len(share) == 0
            continue
        assert one.label_consistency == pytest.approx(np.quantile(share, [0.25, 0.5, 0.75]))
        assert one.below_chance == pytest.approx((share < 1 / 3).mean())
    bands = found.masks["l2"].by_homophily
    assert sum(band["nodes"] for band in bands) == round(120 * (1 - found.masks["l2"].unlabelled))
    for band in bands:
        low, high = band["homophily"]
        assert all(low <= q <= high for q in band["label_consistency"] or [])
    assert sum(found.levels.values()) == pytest.approx(1)


def test_test_labels_are_not_looked_at_unless_asked_for() -> None:
    data = load("hierarchy")
    other = data.clone()
    other.y = torch.where(data.test_mask, 0, data.y)
    assert audit(data).as_dict() == audit(other).as_dict()
    with_all = audit(data, all_labels=True)
    assert with_all.as_dict() != audit(other, all_labels=True).as_dict()
    assert (with_all.labels, with_all.known) == ("all", 1280)


def test_the_bounds_are_chances_in_order_and_say_for_how_many_nodes_they_hold() -> None:
    found = audit(load("hierarchy"))
    for one in found.masks.values():
        if one.lower is None or one.upper is None:
            assert not one.in_domain
            continue
        assert 0.5 <= one.lower <= one.upper <= 1
        assert one.in_domain is not None
        assert 0 < one.in_domain <= 1


def test_without_features_all_that_needs_none_is_there() -> None:
    data = load("hierarchy")
    plain = data.clone()
    plain.x = None
    found, full = audit(plain), audit(data)
    assert found.levels == full.levels
    assert found.scenarios["clear"] is None
    assert found.votes == {}
    for name, one in found.masks.items():
        assert (one.lower, one.upper, one.vote) == (None, None, None)
        assert one.label_consistency == full.masks[name].label_consistency


def test_the_advice_finds_the_communities_of_hierarchy() -> None:
    found = audit(load("hierarchy"))
    assert max(found.clusters, key=lambda count: found.clusters[count]) == 40
    assert found.advice[-1] == "To start from: --set experts=l2,c4,g3 --set clusters=40"


def test_where_neighbours_always_agree_the_local_level_needs_no_other() -> None:
    size = 64
    clique = torch.combinations(torch.arange(size)).T
    cliques = torch.cat([clique, clique + size], dim=1)
    data = Data(
        edge_index=cliques,
        y=torch.arange(2 * size) // size,
        num_nodes=2 * size,
        **{f"{part}_mask": torch.ones(2 * size, dtype=torch.bool) for part in ("train", "val")},
    )
    found = audit(data, clusters=2)
    assert found.levels["local"] == 1.0
    assert "take local and leave out cluster (for 0%), global (for 0%)" in found.advice[1]
    assert found.advice[-1] == "To start from: --set experts=l2"


def test_a_node_table_has_a_row_for_every_node() -> None:
    data = load("hierarchy")
    found = audit(data)
    table = node_table(found, data)
    assert len(table) == 1280
    known = data.train_mask.numpy()
    assert table["level"][known].isin(LEVELS).all()
    assert (table["level"][~known] == "").all()
    assert table["explains_g1"].notna().equals(table["level"] != "")
    predicts = table[[f"predicts_{name}" for name in ("l2", "c3", "g1")]]
    best = predicts.idxmax(axis=1).str.removeprefix("predicts_")
    assert (table["trusted"] == best).all()


def test_the_tables_hold_every_mask_and_scenario() -> None:
    tables = audit_tables(audit(load("hierarchy")))
    assert tables["Masks"]["mask"].tolist() == masks.names()
    assert len(tables["Scenarios"]) == 5
    assert len(tables["By node homophily"]) == 3 * 4


def test_a_graph_without_training_labels_is_refused() -> None:
    data = load("hierarchy")
    data.train_mask = torch.zeros_like(data.train_mask)
    with pytest.raises(UserError, match="No label is known"):
        audit(data)


def test_a_benchmark_without_its_feature_file_is_loaded_with_a_notice(data_root: Path) -> None:
    with pytest.warns(UserNotice, match="no features; bounds, votes and scenario 5 are left out"):
        assert load_for_audit("ogbn-arxiv", str(data_root)).x is None
    with pytest.raises(UserError, match="Unknown dataset"):
        load_for_audit("coar")


@pytest.mark.slow
def test_arxiv_is_audited_in_two_minutes_and_four_gigabytes(data_root: Path) -> None:
    start = time.perf_counter()
    command = [sys.executable, "-m", "m3dphormer", "audit", "ogbn-arxiv", "--json"]
    told = subprocess.run([*command, "--root", str(data_root)], capture_output=True, check=True)
    assert time.perf_counter() - start < 120
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4 * 2**20  # in kB
    found = json.loads(told.stdout)
    assert found["masks"]["l1"]["nnz"] == 590_195_053
    assert found["masks"]["l2"]["label_consistency"][1] > 0.7
