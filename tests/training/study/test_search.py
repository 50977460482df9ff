"""A study that is shared, killed and taken up again, with an objective that costs nothing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from m3dphormer import UserError
from m3dphormer.training.study import (
    Ended,
    Objective,
    Pruned,
    Question,
    Report,
    Search,
    database,
)
from m3dphormer.training.study import search as search_module
from m3dphormer.training.study.trials import ALIVE

SPACE = {"a": (1, 2, 3, 4), "b": (0.1, 0.2, 0.3), "c": ("x",)}
START = {"a": 9, "b": 0.1}  # not in the space
RECORD = {"space": SPACE}


def question(**changed: Any) -> Question:
    fields: dict[str, Any] = {
        "space": SPACE,
        "allowed": lambda drawn: drawn["a"] != 3,
        "fixed": {"epochs": 5},
        "starts": {"defaults": START},
        "warmup": 2,
    }
    return Question(**{**fields, **changed})


def search(folder: Path, **changed: Any) -> Search:
    return Search(f"sqlite:///{folder / 'study.db'}", "test", question(**changed), RECORD)


def score(settings: Mapping[str, Any], report: Report) -> float:
    return settings["a"] + settings["b"]


def run(
    one: Search, trials: int, objective: Objective = score, until: float = math.inf
) -> list[Ended]:
    seen: list[Ended] = []
    one.run(objective, trials, seen.append, until)
    return seen


def states(one: Search) -> list[TrialState]:
    return [trial.state for trial in one._study.trials]


def test_the_start_comes_first_then_new_allowed_combinations(tmp_path: Path) -> None:
    one = search(tmp_path)
    seen = run(one, 7)
    assert seen == one.counted()
    assert [trial.number for trial in seen] == list(range(7))
    assert (seen[0].start, seen[0].settings, seen[0].validation) == ("defaults", START, 910)
    drawn = [trial.settings for trial in seen[1:]]
    assert all(settings["epochs"] == 5 and settings["c"] == "x" for settings in drawn)
    assert all(settings["a"] != 3 for settings in drawn)
    assert len({(settings["a"], settings["b"]) for settings in drawn}) == 6


def test_a_study_ends_where_nothing_new_is_left(tmp_path: Path) -> None:
    assert len(run(search(tmp_path), 100)) == 1 + 3 * 3


def test_a_second_run_goes_on_and_a_finished_one_has_nothing_to_do(tmp_path: Path) -> None:
    first = run(search(tmp_path), 3)
    second = run(search(tmp_path), 5)
    assert [trial.number for trial in [*first, *second]] == [0, 1, 2, 3, 4]
    assert run(search(tmp_path), 5) == []


def test_no_trial_begins_when_the_time_is_over(tmp_path: Path) -> None:
    assert run(search(tmp_path), 5, until=time.monotonic()) == []


def test_a_pruned_trial_counts_and_says_why(tmp_path: Path) -> None:
    def refuse(settings: Mapping[str, Any], report: Report) -> float:
        raise Pruned("too large")

    (seen,) = run(search(tmp_path), 1, refuse)
    assert (seen.pruned, seen.validation) == ("too large", None)


def test_a_trial_below_the_median_is_pruned_after_the_warmup(tmp_path: Path) -> None:
    steps: dict[int, list[int]] = {}

    def objective(settings: Mapping[str, Any], report: Report) -> float:
        reported = steps[len(steps)] = []
        value = 0.1 if len(steps) == 7 else 1.0
        for step in range(1, 6):
            reported.append(step)
            report(step, value)
        return value

    seen = run(search(tmp_path), 7, objective)
    assert [trial.pruned for trial in seen] == [None] * 6 + ["below the median"]
    assert steps[6] == [1, 2]
    assert seen[6].validation == pytest.approx(10)


@pytest.mark.parametrize("at", [0, 3])
def test_an_interrupted_trial_is_run_again_first(tmp_path: Path, at: int) -> None:
    asked: list[Mapping[str, Any]] = []

    def interrupt(settings: Mapping[str, Any], report: Report) -> float:
        asked.append(settings)
        if len(asked) == at + 1:
            raise KeyboardInterrupt
        return score(settings, report)

    one = search(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(one, 6, interrupt)
    assert states(one)[at] == TrialState.FAIL
    again = run(search(tmp_path), 6)
    assert again[0].settings == asked[at]
    assert len(one.counted()) == 6
    assert sum(trial.settings == asked[at] for trial in one.counted()) == 1


@pytest.mark.parametrize("begun", [True, False])
def test_the_trial_of_a_dead_process_is_given_up_and_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """``begun`` False: the process died before its first heartbeat."""
    one = search(tmp_path)
    run(one, 2)
    monkeypatch.setattr(database, "GRACE", 1)
    monkeypatch.setattr(search_module, "POLL", 0.1)
    dead = one._study.ask()
    if begun:
        for name, values in SPACE.items():
            dead.suggest_categorical(name, values)
        one._storage.record_heartbeat(dead._trial_id)
        dead.set_user_attr(ALIVE, True)
    seen = run(search(tmp_path), 5)
    assert states(one)[2] == TrialState.FAIL
    assert len(seen) == 3
    assert len(one.counted()) == 5
    if begun:
        expected = {**dead.params, "epochs": 5}
        assert [trial.settings for trial in seen].count(expected) == 1


def test_settings_that_kill_their_process_are_left_alone_after_some_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "DEATHS", 2)
    one = search(tmp_path, space={"a": (1, 2)})

    def die(settings: Mapping[str, Any], report: Report) -> float:
        if settings["a"] == 9:
            trial = len(states(one)) - 1
            one._study.tell(trial, state=TrialState.FAIL)  # what another process would do
            report(1, 0.5)
        return settings["a"]

    assert {trial.settings["a"] for trial in run(one, 3, die)} == {1, 2}
    assert states(one).count(TrialState.FAIL) == 2


@pytest.mark.parametrize("reports", [True, False])
def test_a_trial_that_was_given_up_by_mistake_counts_once(tmp_path: Path, reports: bool) -> None:
    one = search(tmp_path)

    def stalled(settings: Mapping[str, Any], report: Report) -> float:
        if states(one) == [TrialState.RUNNING]:
            one._study.tell(0, state=TrialState.FAIL)  # what another process would do
            if reports:
                report(1, 0.5)
        return score(settings, report)

    run(one, 3, stalled)
    assert states(one) == [TrialState.FAIL, *[TrialState.COMPLETE] * 3]
    assert [trial.start for trial in one.counted()] == ["defaults", None, None]


def test_many_workers_run_each_trial_once_and_no_trial_too_many(tmp_path: Path) -> None:
    ran: list[tuple[Any, ...]] = []

    def slowly(settings: Mapping[str, Any], report: Report) -> float:
        ran.append((settings["a"], settings["b"]))
        time.sleep(0.02)
        return score(settings, report)

    seen: list[Ended] = []

    def worker() -> None:
        search(tmp_path).run(slowly, 8, seen.append, math.inf)

    threads = [threading.Thread(target=worker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(search(tmp_path).counted()) == len(seen) == len(ran) == 8
    assert len({trial.number for trial in seen}) == 8
    assert len(set(ran)) == 8


def test_a_study_is_not_continued_with_another_question(tmp_path: Path) -> None:
    search(tmp_path)
    with pytest.raises(UserError, match=r"'test' was begun with space=.*choose another --out"):
        Search(f"sqlite:///{tmp_path / 'study.db'}", "test", question(), {"space": {"a": (1,)}})


@pytest.mark.parametrize("url", ["nonsense", "nosuch://server/base", "sqlite:////no/folder/x.db"])
def test_a_database_that_cannot_be_opened_is_the_users_to_know(url: str) -> None:
    with pytest.raises(UserError, match="The study's database cannot be opened"):
        Search(url, "test", question(), RECORD)


def test_optunas_log_level_is_left_as_it_was(tmp_path: Path) -> None:
    before = optuna.logging.get_verbosity()
    run(search(tmp_path), 1)
    assert optuna.logging.get_verbosity() == before
