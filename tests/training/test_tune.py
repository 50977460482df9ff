"""``tune`` from the outside: what it trains on, what it writes, and that it survives."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import Tensor
from torch_geometric.data import Data

import m3dphormer as m3d
from m3dphormer import UserError
from m3dphormer.models.m3dphormer import Graph, M3Dphormer
from m3dphormer.training import recipes
from m3dphormer.training.settings import read_recipe
from m3dphormer.training.study import Ended, Question
from m3dphormer.training.tune import tune, tuning_runs

FAST = {"layers": 1, "epochs": 3, "clusters": 8, "attention_dropout": 0.1, "weight_decay": 0.0}
SEARCHED = ["hidden", "dropout", "heads", "lr"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def graph(split_count: int | None) -> Data:
    return Data(name="mine", split_count=split_count)


def test_trials_train_on_splits_that_are_not_reported() -> None:
    assert tuning_runs(graph(None), 2) == [(100, 100), (101, 101)]
    assert tuning_runs(graph(10), 2) == [(5, 100), (6, 101)]


def test_a_graph_with_few_given_splits_has_no_others() -> None:
    assert tuning_runs(graph(1), 2) == [(0, 100), (0, 101)]
    assert tuning_runs(graph(3), 2) == [(0, 100), (1, 101)]
    with pytest.raises(UserError, match=r"'splits' parameter must be at most 5.*mine.*Got 6"):
        tuning_runs(graph(10), 6)


def test_the_number_of_given_splits_comes_with_the_graph(data_root: Path) -> None:
    assert "split_count" not in m3d.load("hierarchy")
    assert m3d.load("minesweeper", root=data_root).split_count == 10
    masks = [np.eye(6, dtype=bool)[i : i + 2].any(axis=0) for i in (0, 2, 4)]
    kept = dict(zip(("train", "val", "test"), masks, strict=True))
    data = m3d.from_arrays(np.eye(6), [[0, 1], [1, 2]], [0, 1, 0, 1, 0, 1], **kept)
    assert data.split_count == 1


def test_a_search_writes_a_recipe_that_train_takes_and_a_table_of_its_trials() -> None:
    seen: list[Ended] = []
    tuned = tune("hierarchy", trials=4, splits=2, settings=FAST, watch=seen.append)
    folder = Path("tune/hierarchy-m3dphormer")
    assert tuned.folder == folder
    assert (tuned.splits, tuned.searched) == ([100, 101], SEARCHED)
    assert tuned.trials == seen

    defaults, best = seen[0], tuned.best
    assert {name: defaults.settings[name] for name in SEARCHED} == {
        "hidden": 64,
        "dropout": 0.5,
        "heads": 2,
        "lr": 0.001,
    }
    assert tuned.defaults == defaults.validation
    complete = [trial.validation for trial in seen if trial.pruned is None]
    assert best.validation == max(complete) >= tuned.defaults

    recipe = read_recipe(folder / "recipe.toml")
    assert recipe == best.settings
    assert recipe.keys() == {*FAST, *SEARCHED}
    summary = m3d.train("hierarchy", seeds=1, recipe=str(folder / "recipe.toml"))
    assert json.loads((Path(summary.run) / "config.json").read_text())["given"] == recipe

    table = pd.read_csv(folder / "trials.csv")
    assert table["number"].tolist() == [0, 1, 2, 3]
    assert table["start"].tolist()[0] == "defaults"
    assert table["hidden"].tolist() == [trial.settings["hidden"] for trial in seen]


def test_a_trials_score_is_the_mean_over_the_splits_of_the_best_validation() -> None:
    tuned = tune("hierarchy", trials=1, splits=2, settings=FAST)
    best = []
    for split in (100, 101):
        data = m3d.load("hierarchy", split=split)
        clf = m3d.NodeClassifier(seed=split, **FAST).fit(data)
        best.append(100 * max(epoch.val for epoch in clf.history_))
    assert tuned.best.validation == pytest.approx(np.mean(best))


def test_no_trial_is_pruned_before_a_third_of_the_epochs_of_all_its_splits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Question] = []

    def search(_url: str, _name: str, question: Question, _record: object) -> None:
        asked.append(question)
        raise UserError("enough")

    monkeypatch.setattr("m3dphormer.training.tune.Search", search)
    with pytest.raises(UserError, match="enough"):
        tune("hierarchy", trials=1, splits=3, settings={**FAST, "epochs": 20})
    assert asked[0].warmup == 20


def test_the_shipped_recipe_is_tried_beside_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipes, "SHIPPED", tmp_path / "shipped")
    path = recipes.shipped_path("m3dphormer", "hierarchy")
    recipes.write_recipe(path, {"hidden": 12, "heads": 3, "epochs": 50}, [])
    tuned = tune("hierarchy", trials=2, settings=FAST)
    assert [trial.start for trial in tuned.trials] == ["defaults", "recipe"]
    taken = tuned.trials[1].settings
    assert (taken["hidden"], taken["heads"], taken["epochs"]) == (12, 3, 3)


def test_a_search_goes_on_where_it_was_and_refuses_other_settings() -> None:
    first = tune("hierarchy", trials=2, settings=FAST)
    second = tune("hierarchy", trials=3, settings=FAST)
    assert second.trials[:2] == first.trials
    assert len(second.trials) == 3
    with pytest.raises(UserError, match=r"was begun with space=.*choose another --out or --study"):
        tune("hierarchy", trials=3, settings={**FAST, "lr": 0.01})
    other = tune("hierarchy", trials=1, settings={**FAST, "lr": 0.01}, study="other")
    assert len(other.trials) == 1


def test_settings_that_diverge_are_pruned_and_never_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loss = M3Dphormer.loss

    def diverging(self: M3Dphormer, graph: Graph, data: Data) -> Tensor:
        return loss(self, graph, data) * (math.nan if self.config.dropout > limit else 1)

    monkeypatch.setattr(M3Dphormer, "loss", diverging)
    limit = 0.4  # the defaults have 0.5
    tuned = tune("hierarchy", trials=6, settings=FAST)
    assert tuned.trials[0].pruned == "The loss became nan in epoch 1; take a smaller lr than 0.001."
    assert tuned.best.settings["dropout"] == 0.3
    limit = 0.0
    with pytest.raises(UserError, match=r"No trial was complete: The loss became nan in epoch 1"):
        tune("hierarchy", trials=2, settings=FAST, study="hopeless")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"trials": 0}, "'trials' parameter must be an int of at least 1"),
        ({"splits": 0}, "'splits' parameter"),
        ({"minutes": 0.0}, r"'minutes' parameter must be a float in the range \(0, inf\)"),
        ({"model": "gnc"}, "Unknown model"),
        ({"settings": {"clusters": 5000}}, "5000"),
        ({"metric": "roc_auc"}, "roc_auc needs two classes"),
    ],
)
def test_a_mistake_is_told_before_anything_is_written(
    bad: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        tune("hierarchy", **bad)
    assert list(tmp_path.iterdir()) == []


COMMAND = [sys.executable, "-m", "m3dphormer", "tune", "hierarchy", "--json"]
SETS = [word for name, value in FAST.items() for word in ("--set", f"{name}={value}")]


def start(trials: int, epochs: int) -> subprocess.Popen[str]:
    words = [*COMMAND, *SETS, "--trials", str(trials), "--epochs", str(epochs)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    told: dict[str, Any] = json.loads(out)
    return told


def states() -> list[str]:
    with sqlite3.connect("tune/hierarchy-m3dphormer/study.db") as base:
        return [state for (state,) in base.execute("select state from trials order by number")]


def wait_for(trials: int) -> None:
    """Until so many trials are complete and another one runs."""
    while True:
        time.sleep(0.05)
        try:
            found = states()
        except sqlite3.OperationalError:
            continue  # the tables are being made
        if found.count("COMPLETE") >= trials and "RUNNING" in found:
            return


@pytest.mark.slow
def test_a_killed_search_is_finished_by_the_same_command() -> None:
    process = start(trials=6, epochs=100)
    wait_for(trials=2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = states()
    assert before[-1] == "RUNNING"
    told = ended(start(trials=6, epochs=100))
    assert told["trials"] == 6
    after = states()
    assert after.count("COMPLETE") + after.count("PRUNED") == 6
    assert after[len(before) - 1] == "FAIL"
    table = pd.read_csv("tune/hierarchy-m3dphormer/trials.csv")
    assert not table.duplicated(["hidden", "dropout", "heads", "lr"]).any()
    assert told["best"] >= told["defaults"]


@pytest.mark.slow
def test_two_processes_at_once_lose_no_trial_and_run_none_twice() -> None:
    told = [ended(process) for process in [start(trials=10, epochs=20) for _ in range(2)]]
    assert [one["trials"] for one in told] == [10, 10]
    assert told[0]["best"] == told[1]["best"]
    counted = [state for state in states() if state != "FAIL"]
    assert len(counted) == 10
    assert set(counted) <= {"COMPLETE", "PRUNED"}
    table = pd.read_csv("tune/hierarchy-m3dphormer/trials.csv")
    assert table["number"].is_unique
    assert not table.duplicated(["hidden", "dropout", "heads", "lr"]).any()
    assert np.isfinite(table["validation"]).all()
