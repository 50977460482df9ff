from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from m3dphormer.experiments.levels import run_levels, score_split, summarise
from m3dphormer.theory import Vote

TINY = {"hidden": 8, "epochs": 2}


def test_masks_and_their_joins_are_scored_on_test_nodes_alone() -> None:
    data = Data(y=torch.tensor([0, 1, 1, 0]), test_mask=torch.tensor([True, True, True, False]))
    said = {
        "l2": np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.0, 1.0]]),  # right, wrong, right
        "g1": np.array([[0.2, 0.8], [0.3, 0.7], [0.55, 0.45], [0.0, 1.0]]),  # wrong, right, wrong
    }
    votes = {
        "l2": Vote(0.0, torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])),
        "g1": Vote(5.0, torch.tensor([[0.6, 0.4], [0.1, 0.9], [0.2, 0.8], [0.5, 0.5]])),
    }
    rows = pd.DataFrame(score_split(said, votes, data)).set_index("what")
    accuracy = rows["accuracy"].to_dict()
    assert accuracy == pytest.approx(
        # mean: .55/.45 .45/.55 .375/.625; max: 0.9 0.7 0.8; trusted: l2 g1 g1
        {"l2": 2 / 3, "g1": 1 / 3, "mean": 1, "max": 1, "trusted": 2 / 3, "oracle": 1}
    )
    assert rows.loc["l2", "explains_auc"] == 1.0  # .9 and .7 against .4
    assert rows.loc["l2", "predicts_auc"] == 1.0  # .9 and .7 against .6
    assert rows.loc["g1", "predicts_auc"] == 1.0
    assert rows.loc["g1", "tau"] == 5.0


def test_a_model_that_is_always_right_has_no_auc() -> None:
    data = Data(y=torch.tensor([0, 1]), test_mask=torch.ones(2, dtype=torch.bool))
    shares = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    rows = score_split({"l2": shares.numpy()}, {"l2": Vote(0.0, shares)}, data)
    assert np.isnan(rows[0]["explains_auc"])


def test_a_run_that_was_ended_goes_on_where_it_was(tmp_path: Path) -> None:
    target, work = tmp_path / "results" / "levels.csv", tmp_path / "work"
    done: list[str] = []

    def run(splits: int) -> pd.DataFrame:
        done.clear()
        return run_levels(
            ["hierarchy"], target, splits=splits, work=work, settings=TINY, watch=done.append
        )

    first = run(1)
    assert len(first) == 7
    assert len(done) == 4  # three masks and the split
    pd.testing.assert_frame_equal(run(1), first)
    assert done == []
    second = run(2)
    assert len(second) == 14
    pd.testing.assert_frame_equal(second[:7], first)
    target.unlink()  # the trained pieces are still there
    again = run(2)
    assert done == ["hierarchy, split 0", "hierarchy, split 1"]
    pd.testing.assert_frame_equal(again, second)
    assert {"command", "commit", "machine"} <= set(again)
    assert again["epochs"][:3].tolist() == [2, 2, 2]


def test_a_split_that_lacks_a_mask_is_run_again_below_its_old_rows(tmp_path: Path) -> None:
    target, work = tmp_path / "levels.csv", tmp_path / "work"
    first = run_levels(["hierarchy"], target, splits=1, work=work, settings=TINY)
    first[first["what"] != "g1"].assign(accuracy=0.0).to_csv(target, index=False)
    again = run_levels(["hierarchy"], target, splits=1, work=work, settings=TINY)
    assert again["what"].tolist() == [*first["what"].drop(2), *first["what"]]
    pd.testing.assert_frame_equal(summarise(again), summarise(first))


def test_intervals_are_over_splits_and_the_overall_mean_over_cells() -> None:
    rows = pd.DataFrame(
        [
            {"dataset": d, "split": s, "what": "l2", "accuracy": 0.5, "explains_auc": e}
            for d, s, e in (("a", 0, 0.6), ("a", 1, 0.8), ("b", 0, 0.9))
        ]
    ).assign(predicts_auc=0.5)
    table = summarise(rows).set_index(["dataset", "number"])
    a = table.loc["a", "explains_auc"]
    assert a["mean"] == pytest.approx(0.7)
    assert a["high"] - a["mean"] == pytest.approx(12.706 * 0.1, rel=1e-3)
    assert np.isnan(table.loc[("b", "explains_auc"), "low"])
    assert table.loc[("all", "explains_auc"), "mean"] == pytest.approx(0.8)


def test_the_gain_of_a_join_is_over_always_l2_on_the_same_split() -> None:
    rows = pd.DataFrame(
        [
            {"dataset": d, "split": s, "what": what, "accuracy": accuracy}
            for d, s, l2, trusted in (("a", 0, 0.5, 0.6), ("a", 1, 0.7, 0.6), ("b", 0, 0.1, 0.7))
            for what, accuracy in (("l2", l2), ("c3", 0.9), ("trusted", trusted))
        ]
    ).assign(explains_auc=0.5, predicts_auc=0.5)
    table = summarise(rows)
    gains = table[table["number"] == "gain"].set_index("dataset")
    assert gains["what"].unique().tolist() == ["trusted"]
    assert gains["mean"].to_dict() == pytest.approx({"a": 0.0, "b": 0.6, "all": 0.3})
