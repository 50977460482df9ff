"""tune, compare and reproduce as a user meets them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command import TINY, Command
from m3dphormer import cli
from m3dphormer.cli import studies
from m3dphormer.models import registry as models
from m3dphormer.training.compare import suite, worker


def test_reproduce_prints_ours_beside_the_papers_and_trains_nothing_twice(command: Command) -> None:
    asked = ["reproduce", "table3", "--graphs", "hierarchy", "--variants", "full,w/o local"]
    asked += ["--seeds", "2", "--set", "epochs=2", "--set", "hidden=8"]
    code, out, err = command(*asked)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["dataset", "variant", "seeds", "ours", "paper"]
    assert lines[2].startswith("hierarchy  w/o local")
    assert lines[-1] == "Written: results/ablations.csv"
    written = Path("results/ablations.csv").read_text()
    code, out, _ = command(*asked, "--json")
    told = json.loads(out)
    assert [row["variant"] for row in told["rows"]] == ["full", "w/o local"]
    assert Path("results/ablations.csv").read_text() == written


def test_compare_prints_a_line_a_run_and_a_table_and_goes_on(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "in_a_process", worker.rows)
    asked = ["compare", "hierarchy", "--models", "mowst,gcn-moe", *TINY, "--set", "layers=2"]
    code, out, err = command(*asked)
    assert code == 0
    assert [line.split(": ")[0] for line in err.splitlines()] == [
        f"model {at} of 2, {model}, seed {seed}"
        for at, model in ((1, "mowst"), (2, "gcn-moe"))
        for seed in range(2)
    ]
    lines = out.splitlines()
    assert lines[0].startswith("hierarchy, best by validation: ")
    assert {lines[2].split()[0], lines[3].split()[0]} == {"mowst", "gcn-moe"}
    assert lines[-1] == "Written: compare/hierarchy/runs.csv, comparison.json, compare.png"
    assert Path("compare/hierarchy/compare.png").stat().st_size > 5_000

    code, again, err = command(*asked)
    assert (code, again) == (0, out)
    assert err.count("2 of 2 seeds are there already") == 2

    told = json.loads(command(*asked, "--json")[1])
    assert told == json.loads(Path("compare/hierarchy/comparison.json").read_text())
    keys = {"dataset", "model", "metric", "mean", "std", "scores", "seconds", "run"}
    for one in told["models"]:
        assert keys | {"difference", "interval", "p"} <= set(one)
    assert [one["difference"] is None for one in told["models"]].count(True) == 1
    row = Path("compare/hierarchy/runs.csv").read_text().splitlines()[1]
    assert "m3dphormer compare hierarchy --models mowst,gcn-moe" in row


def test_compare_takes_models_of_the_users_own_and_all(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(models, "_MODELS", dict(models._MODELS))
    monkeypatch.setattr(
        studies, "compare_models", lambda *given, **_: seen.append(given[1]) or 1 / 0
    )
    Path("mine.py").write_text(
        "import m3dphormer as m3d\n"
        "from m3dphormer.models.mowst import Mowst\n"
        "m3d.register_model('mine')(Mowst)\n"
    )
    monkeypatch.setattr(
        sys, "argv", ["m3dphormer", "compare", "digits", "--models", "all", "--import", "mine.py"]
    )
    with pytest.raises(ZeroDivisionError):
        cli.main()
    assert {"mine", "m3dphormer", "mowst", "gcn-moe"} <= set(seen[0])


TINY_SEARCH = ["--trials", "2", "--epochs", "2", "--set", "layers=1", "--set", "clusters=8"]


def test_tune_tells_what_it_found_and_where_it_is(command: Command) -> None:
    code, out, err = command("tune", "hierarchy", *TINY_SEARCH, "--out", "found")
    assert (code, err) == (0, "")
    first, best, trial, written = out.splitlines()
    assert first.startswith("m3dphormer on hierarchy: 2 trials, ")
    assert best.startswith("Best validation accuracy: ")
    assert ", of the defaults " in best
    assert trial.startswith("Trial ")
    assert "hidden=" in trial
    assert written == "Written: found/recipe.toml, trials.csv, search.png"
    names = {path.name for path in Path("found").iterdir()}
    assert names == {"recipe.toml", "trials.csv", "search.png", "study.db"}


def test_tune_as_json_prints_one_object(command: Command) -> None:
    code, out, err = command("tune", "hierarchy", *TINY_SEARCH, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["dataset"], told["trials"], told["splits"]) == ("hierarchy", 2, [100])
    assert told["best"] >= told["defaults"]
    assert Path(told["recipe"]).is_file()


def test_an_interrupted_search_ends_with_what_is_there(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from m3dphormer.training.tune import Trainings

    tried: list[object] = []

    def interrupt(self: Trainings, settings: object, report: object) -> float:
        tried.append(settings)
        if len(tried) == 2:
            raise KeyboardInterrupt
        return 0.5

    monkeypatch.setattr(Trainings, "validation", interrupt)
    code, out, err = command("tune", "hierarchy", *TINY_SEARCH, "--out", "found")
    assert (code, err) == (130, "m3dphormer: interrupted; the same command goes on\n")
    assert "1 trials, 0 pruned" in out
    assert Path("found/recipe.toml").is_file()


def test_tune_without_its_extra_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.startswith(("m3dphormer.training.study", "m3dphormer.training.tune")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, out, err = command("tune", "hierarchy")
    words = "m3dphormer: tune needs the 'tune' extra: pip install 'm3dphormer[tune]'.\n"
    assert (code, out, err) == (2, "", words)
