"""train, predict and report as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import TINY, Command, write_csv
from m3dphormer.cli import runs, studies
from m3dphormer.masks import registry
from m3dphormer.training.checkpoint import Checkpoint
from m3dphormer.training.loop import State


def test_train_prints_a_table_and_the_run_folder(command: Command) -> None:
    code, out, err = command("train", "hierarchy", *TINY)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("m3dphormer on hierarchy (generated")
    assert lines[1].split() == ["seed", "epoch", "validation", "test", "accuracy", "seconds"]
    assert lines[-3].startswith("mean")
    assert " ± " in lines[-3]
    run = Path("runs/hierarchy-m3dphormer-1")
    assert lines[-2:] == [f"Run folder: {run}", f"Report: {run / 'report.html'}"]
    assert (run / "summary.json").is_file()
    assert "m3dphormer on hierarchy" in (run / "report.html").read_text()


def test_train_as_json_prints_one_object_and_nothing_else(command: Command) -> None:
    code, out, err = command("train", "hierarchy", "--json", *TINY)
    assert (code, err) == (0, "")
    summary = json.loads(out)
    keys = {"dataset", "model", "metric", "mean", "std", "scores", "seconds", "run"}
    assert keys <= set(summary)
    assert summary["dataset"] == "hierarchy"
    assert Path(summary["report"]).is_file()
    assert all(0 <= score <= 100 for score in summary["scores"])


def test_the_same_command_prints_the_same_numbers_twice(command: Command) -> None:
    first, second = (json.loads(command("train", "hierarchy", "--json", *TINY)[1]) for _ in "ab")
    assert first["scores"] == second["scores"]
    assert first["validation"] == second["validation"]


def test_a_recipe_is_taken_and_set_overrides_it(command: Command) -> None:
    Path("mine.toml").write_text('hidden = 8\nlayers = 1\nepochs = 2\npreset = "paper"\n')
    code, out, _ = command(
        "train", "hierarchy", "--seeds", "1", "--recipe", "mine.toml", "--set", "epochs=3", "--json"
    )
    assert code == 0
    config = json.loads((Path(json.loads(out)["run"]) / "config.json").read_text())
    assert config["settings"]["preset"] == "paper"
    assert config["settings"]["epochs"] == 3


def test_a_mask_of_the_users_own_is_imported_and_used_by_name(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_BUILDERS", dict(registry._BUILDERS))
    Path("mine.py").write_text(
        "from m3dphormer import masks\n"
        "@masks.register_mask('global')\n"
        "def ring(data):\n"
        "    n = data.num_nodes\n"
        "    return masks.from_rule(data, lambda u, v: (u + 1) % n == v, name='ring')\n"
    )
    code, out, _ = command(
        "train", "hierarchy", *TINY, "--import", "mine.py", "--set", "experts=l2,ring", "--json"
    )
    assert code == 0
    predictions = Path(json.loads(out)["run"]) / "seed0" / "predictions.csv"
    assert predictions.read_text().splitlines()[0].endswith("gate_local,gate_global")


def test_predict_writes_or_prints_a_csv_of_a_graph_without_labels(command: Command) -> None:
    write_csv(Path("old"))
    assert command("train", "old", *TINY, "--out", "run")[0] == 0
    lines = Path("old/nodes.csv").read_text().splitlines()
    bare = [",".join([cell for i, cell in enumerate(line.split(",")) if i != 1]) for line in lines]
    Path("new").mkdir()
    Path("new/nodes.csv").write_text("\n".join([*bare, "someone,0.5,0.5"]))
    Path("new/edges.csv").write_text(Path("old/edges.csv").read_text() + "\nn1,someone")

    code, out, err = command("predict", "run", "new", "--out", "new.csv")
    assert (code, out, err) == (0, "Written: new.csv, 25 nodes\n", "")
    code, printed, _ = command("predict", "run", "new")
    assert printed == Path("new.csv").read_text()
    gates = "gate_local,gate_cluster,gate_global"
    assert printed.splitlines()[0] == f"id,label,p_x,p_y,p_z,{gates}"
    best = json.loads(Path("run/summary.json").read_text())["best_seed"]
    own = command("predict", "run")[1]
    assert own == Path(f"run/seed{best}/predictions.csv").read_text()
    told = json.loads(command("predict", "run", "--ensemble", "--json")[1])
    assert told["nodes"] == len(told["predictions"]) == 24
    code, _, err = command("predict", "run", "new", "--out", "new.txt")
    assert (code, err) == (2, "m3dphormer: 'new.txt' must end in .csv.\n")


def test_report_writes_the_page_again_or_elsewhere(command: Command) -> None:
    assert command("train", "hierarchy", *TINY, "--out", "run")[0] == 0
    page = Path("run/report.html")
    first = page.read_text()
    page.unlink()
    assert command("report", "run") == (0, "Written: run/report.html\n", "")
    assert page.read_text() == first
    code, out, err = command("report", "run", "--out", "mine.html", "--audit", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"run": "run", "report": "mine.html", "missing": []}
    assert Path("mine.html").is_file()


def test_a_report_without_its_graph_says_so(command: Command) -> None:
    write_csv(Path("old"))
    assert command("train", "old", *TINY, "--out", "run")[0] == 0
    Path("old").rename("elsewhere")
    code, out, err = command("report", "run")
    assert (code, out) == (0, "Written: run/report.html\n")
    assert err.startswith("notice: What needs the graph is left out: ")
    assert err.count("\n") == 1


def test_a_report_that_fails_does_not_lose_the_run(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(runs, "write_report", full)
    code, out, err = command("train", "hierarchy", *TINY, "--out", "run", "--json")
    assert code == 0
    assert json.loads(out)["report"] is None
    assert err == "notice: No report was written: No space left on device; the run is in run.\n"
    assert Path("run/summary.json").is_file()


def test_a_notice_is_one_line_on_stderr(command: Command) -> None:
    write_csv(Path("plain"), features=False)
    code, _, err = command("train", "plain", *TINY)
    assert code == 0
    assert err.splitlines() == [
        "notice: plain: no features; degree and Laplacian encodings stand in for them."
    ]


def test_an_interrupted_run_goes_on_with_resume(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(self: Checkpoint, state: State) -> None:
        self.write(state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", pressed)
        code, out, err = command("train", "hierarchy", *TINY)
    run = "runs/hierarchy-m3dphormer-1"
    assert (code, out) == (130, "")
    assert err == (
        "m3dphormer: interrupted after epoch 1; the weights of epoch 1, the best, are in "
        f"{run}/seed0; go on with --resume --out {run}\n"
    )
    code, out, err = command("train", "hierarchy", "--resume", "--set", "epochs=3")
    assert (code, out) == (2, "")
    assert err.startswith(f"m3dphormer: {run} was begun with epochs=2, not 3")
    code, out, err = command("train", "hierarchy", "--resume", "--out", run, "--json")
    assert (code, err) == (0, "")
    went_on = json.loads(out)
    whole = json.loads(command("train", "hierarchy", *TINY, "--json")[1])
    assert went_on["run"] == run
    assert went_on["scores"] == whole["scores"]


def test_patience_and_minutes_end_a_run_early(command: Command) -> None:
    options = ["--patience", "3", "--minutes", "5", "--checkpoint", "1"]
    code, out, _ = command("train", "hierarchy", *TINY, "--set", "epochs=400", "--json", *options)
    assert code == 0
    summary = json.loads(out)
    lines = (Path(summary["run"]) / "seed0" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == summary["epochs"][0] + 3


def test_ctrl_c_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "train_run", interrupted)
    assert command("train", "digits") == (130, "", "m3dphormer: interrupted\n")
    monkeypatch.setattr(studies, "compare_models", interrupted)
    code, out, err = command("compare", "digits", "--models", "mowst")
    assert (code, out) == (130, "")
    words = "interrupted; what is finished is kept, the same command goes on"
    assert err == f"m3dphormer: {words}\n"


def test_train_refuses_what_cannot_fit_in_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("m3dphormer.training.forecast.available_memory", lambda: 1000)
    code, out, err = command("train", "hierarchy", *TINY)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "--force" in err
    assert not Path("runs").exists()
    assert command("train", "hierarchy", "--force", *TINY)[0] == 0
