from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import m3dphormer as m3d
from m3dphormer.errors import UserError, UserNotice
from m3dphormer.training.compare import compare, suite, worker
from m3dphormer.training.compare.runs import Row, Runs

TINY: dict[str, Any] = {"epochs": 3, "hidden": 8}
MODELS = ("mowst", "gcn-moe")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Model and seed of every run, trained in this process to save the time of starting one."""
    seen: list[tuple[str, int]] = []

    def here(task: dict[str, Any]) -> Iterator[Row]:
        for row in worker.rows(task):
            if "seed" in row:
                seen.append((task["model"], row["seed"]))
            yield row

    monkeypatch.setattr(suite, "in_a_process", here)
    return seen


def run(seeds: int = 2, **more: Any) -> Any:
    settings = {**TINY, **more.pop("settings", {})}
    return compare("hierarchy", more.pop("models", MODELS), seeds=seeds, settings=settings, **more)


def test_a_process_of_its_own_gives_the_scores_of_train() -> None:
    lines: list[str] = []
    found = run(models=("mowst",), watch=lines.append)
    (one,) = found.models
    summary = m3d.train("hierarchy", model="mowst", seeds=2, settings=TINY)
    assert one.scores == pytest.approx(summary.scores)
    assert one.validation == pytest.approx(summary.validation)
    assert 0 < one.peak_mb < 500
    assert one.parameters > 0
    assert [line.split(": ")[0] for line in lines] == [
        f"model 1 of 1, mowst, seed {seed}" for seed in range(2)
    ]
    rows = Runs(Path("compare/hierarchy/runs.csv")).read()
    assert [row["test"] for row in rows] == one.scores
    assert all(row["epochs"] == 3 and row["seconds"] > 0 for row in rows)


def test_what_is_there_is_not_trained_again(trained: list[tuple[str, int]]) -> None:
    first = run()
    assert trained == [(model, seed) for model in MODELS for seed in range(2)]
    trained.clear()
    assert run() == first
    assert trained == []
    run(seeds=3)
    assert trained == [("mowst", 2), ("gcn-moe", 2)]
    trained.clear()
    run(settings={"dropout": 0.1}, models=("mowst",))
    assert trained == [("mowst", 0), ("mowst", 1)]


def test_a_run_from_before_a_setting_was_there_counts_as_one_with_its_default(
    trained: list[tuple[str, int]],
) -> None:
    run()
    path = Path("compare/hierarchy/runs.csv")
    path.write_text(path.read_text().replace('""schedule"": ""constant"", ', ""))
    assert "schedule" not in path.read_text()
    trained.clear()
    run()
    assert trained == []
    run(models=("mowst",), settings={"schedule": "cosine"})
    assert trained == [("mowst", 0), ("mowst", 1)]


def test_a_run_with_a_setting_that_is_none_any_more_is_trained_again(
    trained: list[tuple[str, int]],
) -> None:
    run(models=("mowst",))
    path = Path("compare/hierarchy/runs.csv")
    path.write_text(path.read_text().replace('""schedule""', '""warmth""'))
    trained.clear()
    run(models=("mowst",))
    assert trained == [("mowst", 0), ("mowst", 1)]


def test_ctrl_c_costs_one_run_at_most_and_the_same_call_goes_on(
    trained: list[tuple[str, int]],
) -> None:
    def pressed(line: str) -> None:
        if "gcn-moe, seed 0" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(watch=pressed)
    assert len(Runs(Path("compare/hierarchy/runs.csv")).read()) == 3
    trained.clear()
    run()
    assert trained == [("gcn-moe", 1)]


def test_a_process_that_nobody_listens_to_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    popen = suite.subprocess.Popen

    def kept(*words: Any, **options: Any) -> Any:
        started.append(popen(*words, **options))
        return started[-1]

    monkeypatch.setattr(suite.subprocess, "Popen", kept)

    def pressed(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(models=("mowst",), seeds=50, watch=pressed, settings={"epochs": 100})
    assert started[0].poll() == -15


def test_a_model_that_cannot_be_trained_is_left_out_with_a_notice(
    trained: list[tuple[str, int]],
) -> None:
    with pytest.warns(UserNotice, match="m3dphormer is left out: 5000 clusters are more than"):
        found = compare_with_recipe(clusters=5000)
    assert [one.model for one in found.models] == ["mowst"]


def compare_with_recipe(**recipe: Any) -> Any:
    """M3Dphormer with a recipe that cannot work, beside Mowst."""
    from m3dphormer.training.recipes import Recipe

    def find(asked: str | None, model: str, dataset: str) -> Recipe:
        return Recipe("mine", recipe) if model == "m3dphormer" else Recipe()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, "find_recipe", find)
        return run(models=("m3dphormer", "mowst"))


def test_a_process_that_dies_is_told_with_its_last_word() -> None:
    Path("own.py").write_text("import os, sys\nsys.stderr.write('no!')\nos._exit(3)\n")
    with (
        pytest.warns(UserNotice, match="mowst is left out: its process ended with code 3, no!"),
        pytest.raises(UserError, match="No model could be trained on hierarchy"),
    ):
        run(models=("mowst",), imports=["own.py"])


def test_a_recipe_is_taken_and_settings_stand_above_it(
    trained: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from m3dphormer.training.recipes import Recipe

    given = {"dropout": 0.25, "hidden": 32}
    monkeypatch.setattr(suite, "find_recipe", lambda *_: Recipe("shipped", given))
    (one,) = run(models=("mowst",), seeds=2).models
    assert one.recipe == "shipped"
    (row, _) = Runs(Path("compare/hierarchy/runs.csv")).read()
    assert '"dropout": 0.25' in row["settings"]
    assert '"hidden": 8' in row["settings"]


def test_tune_gives_every_model_as_many_trials_on_other_splits(
    trained: list[tuple[str, int]],
) -> None:
    lines: list[str] = []
    found = run(trials=2, watch=lines.append)
    for model in MODELS:
        assert f"{model}, trial 2 of 2" in lines
        assert Path(f"compare/hierarchy/tune/{model}/recipe.toml").is_file()
    assert {one.recipe for one in found.models} == {"tuned, 2 trials"}
    trained.clear()
    assert run(trials=2) == found
    assert trained == []


def test_a_model_that_cannot_be_tuned_is_left_out_with_a_notice(
    trained: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hopeless(dataset: str, **_: object) -> None:
        raise UserError("No trial was complete: no time")

    monkeypatch.setattr(suite, "_search", lambda: hopeless)
    with (
        pytest.warns(UserNotice, match="mowst is left out: No trial was complete"),
        pytest.raises(UserError, match="No model could be trained"),
    ):
        run(models=("mowst",), trials=2)
    assert trained == []


def test_a_single_seed_is_told(trained: list[tuple[str, int]]) -> None:
    with pytest.warns(UserNotice, match="A single seed gives no interval"):
        run(seeds=1, models=("mowst",))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"models": ("mowts",)}, "Unknown model 'mowts'. Did you mean mowst"),
        ({"settings": {"variant": "joint"}}, "Unknown setting of gcn-moe 'variant'"),
        ({"models": ()}, "There is no model to compare"),
        ({"seeds": 0}, "'seeds' parameter must be an int of at least 1"),
        ({"trials": -1}, "'trials' parameter must be an int of at least 0"),
        ({"metric": "roc_auc"}, "roc_auc needs two classes"),
    ],
)
def test_a_mistake_is_told_before_any_training(
    trained: list[tuple[str, int]], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        run(**more)
    assert trained == []
    assert not Path("compare").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl")
def test_a_killed_comparison_leaves_no_process_behind() -> None:
    long = ("--set", "epochs=100000", "--seeds", "1", "--models", "mlp")
    command = [sys.executable, "-m", "m3dphormer", "compare", "hierarchy", *long]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
        try:
            worker = _until(lambda: _worker_of(parent.pid))
            # The worker ignores SIGINT (bit 2) right before it asks for the signal.
            _until(lambda: int(_field(worker, "SigIgn") or "0", 16) & 2)
            time.sleep(1)
        finally:
            parent.kill()
    _until(lambda: _field(worker, "State")[:1] in "Z")


def _worker_of(parent: int) -> str:
    """Its process that trains; there are short ones too, which ask git for the commit."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):
            if b"compare.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
    return ""


def _field(process: str, name: str) -> str:
    """What the system says of a process; nothing where it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(name))


def _until(there: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := there():
            return found
        time.sleep(0.1)
    raise AssertionError("waited a minute in vain")
