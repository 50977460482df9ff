"""The command as a user meets it: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from m3dphormer import cli
from m3dphormer.masks import registry
from m3dphormer.models import registry as models
from m3dphormer.training.checkpoint import Checkpoint
from m3dphormer.training.compare import suite, worker
from m3dphormer.training.loop import State

TINY = ["--seeds", "2", "--set", "epochs=2", "--set", "hidden=8", "--set", "layers=1"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Command:
    """Runs ``m3dphormer`` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["m3dphormer", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = self.capsys.readouterr()
        return int(ended.value.code or 0), out, err


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


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


def test_an_experiment_that_is_not_there_is_told(command: Command) -> None:
    code, _, err = command("reproduce", "tabel3")
    assert code == 2
    assert err == "m3dphormer: Unknown experiment 'tabel3'. Did you mean table3?\n"


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

    monkeypatch.setattr(cli, "write_report", full)
    code, out, err = command("train", "hierarchy", *TINY, "--out", "run", "--json")
    assert code == 0
    assert json.loads(out)["report"] is None
    assert err == "notice: No report was written: No space left on device; the run is in run.\n"
    assert Path("run/summary.json").is_file()


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
    monkeypatch.setattr(cli, "compare_models", lambda *given, **_: seen.append(given[1]) or 1 / 0)
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


def test_datasets_lists_all_with_numbers_and_sources(command: Command) -> None:
    code, out, _ = command("datasets", "--json")
    listed = {one["name"]: one for one in json.loads(out)["datasets"]}
    assert code == 0
    assert len(listed) == 12
    assert listed["digits"]["source"].startswith("embedded")
    assert listed["cora"]["source"].startswith("download from https://")
    assert listed["cora"]["nodes"] == 2708
    code, out, _ = command("datasets")
    assert code == 0
    assert all(name in out for name in listed)


def test_audit_prints_tables_and_advice_and_writes_what_was_asked_for(command: Command) -> None:
    code, out, err = command(
        "audit", "hierarchy", "--figure", "audit.png", "--nodes", "nodes.csv", "--clusters", "40"
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "hierarchy: 1,280 nodes, 768 training labels"
    assert [line for line in lines if line in ("Masks", "Scenarios", "Advice")] == [
        "Masks",
        "Scenarios",
        "Advice",
    ]
    assert lines[-1] == "- To start from: --set experts=l2,c4,g3 --set clusters=40"
    assert Path("audit.png").stat().st_size > 0
    assert len(Path("nodes.csv").read_text().splitlines()) == 1281


def test_audit_as_json_keeps_its_contract(command: Command) -> None:
    code, out, err = command("audit", "hierarchy", "--json", "--all-labels")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["labels"] == "all"
    assert all(isinstance(line, str) for line in told["advice"])
    keys = {"nnz", "density", "receptive_field", "label_consistency", "lower", "upper"}
    for one in told["masks"].values():
        assert keys <= set(one)
        assert len(one["receptive_field"]) == 3
    l2 = told["masks"]["l2"]
    assert l2["nnz"] == 11638
    assert len(l2["label_consistency"]) == 3
    assert 0.5 <= l2["lower"] <= l2["upper"] <= 1


def test_help_names_every_command(command: Command) -> None:
    code, out, _ = command("--help")
    assert code == 0
    named = ("train", "predict", "report", "datasets", "audit", "tune", "bench")
    assert all(name in out for name in named)


def test_a_notice_is_one_line_on_stderr(command: Command) -> None:
    write_csv(Path("plain"), features=False)
    code, _, err = command("train", "plain", *TINY)
    assert code == 0
    assert err.splitlines() == [
        "notice: plain: no features; degree and Laplacian encodings stand in for them."
    ]


def test_python_m_is_the_same_command_and_no_traceback_reaches_the_user() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "m3dphormer", "train", "coar"], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == "m3dphormer: Unknown dataset 'coar'. Did you mean cora?\n"


# Mistakes that people make: one clear line, exit code 2, nothing written.


def write_csv(folder: Path, *, features: bool = True, **changes: str) -> None:
    rng = np.random.RandomState(0)
    folder.mkdir()
    header = "id,label,a,b" if features else "id,label"
    cells = [[f"n{i}", "xyz"[i % 3], *map(str, rng.randn(2).round(3))] for i in range(24)]
    width = 4 if features else 2
    nodes = "\n".join([header, *(",".join(row[:width]) for row in cells)])
    edges = "\n".join(["source,target", *(f"n{i},n{(i + 1) % 24}" for i in range(24))])
    (folder / "nodes.csv").write_text(changes.get("nodes") or nodes + "\n")
    (folder / "edges.csv").write_text((changes.get("edges") or edges) + changes.get("more", ""))


def make_mistake(kind: str) -> list[str]:
    """Prepare a mistake and give the arguments that make it."""
    graph = Path("graph")
    write_csv(graph, more="\nn1,nobody" if kind == "edge to nowhere" else "")
    text = (graph / "nodes.csv").read_text()
    lines = text.splitlines()
    data = Data(x=torch.randn(24, 2), edge_index=torch.randint(24, (2, 40)), y=torch.arange(24) % 3)

    if kind == "nan feature":
        lines[3] = "n2,z,nan,1.0"
    elif kind == "infinite feature":
        lines[3] = "n2,z,inf,1.0"
    elif kind == "unequal features":
        lines[3] = "n2,z,1.0"
    elif kind == "no labels":
        lines = [lines[0], *(f"n{i},,1,2" for i in range(24))]
    elif kind == "one class":
        lines = [lines[0], *(f"n{i},x,1,2" for i in range(24))]
    elif kind == "empty graph":
        lines = lines[:1]
    elif kind == "class without training node":
        split = ["train" if i % 3 else "test" for i in range(23)]
        lines = [
            "id,label,split,a",
            *(f"n{i},{'xyz'[i % 3]},{part},1" for i, part in enumerate([*split, "val"])),
        ]
    (graph / "nodes.csv").write_text("\n".join(lines) + "\n")

    if kind == "truncated npz":
        np.savez("graph.npz", node_features=np.eye(24))
        Path("graph.npz").write_bytes(Path("graph.npz").read_bytes()[:200])
        return ["graph.npz"]
    if kind == "foreign npz":
        np.savez("graph.npz", weights=np.eye(24))
        return ["graph.npz"]
    if kind == "truncated pt":
        torch.save(data, "graph.pt")
        Path("graph.pt").write_bytes(Path("graph.pt").read_bytes()[:500])
        return ["graph.pt"]
    if kind == "foreign pt":
        torch.save({"a": torch.ones(3)}, "graph.pt")
        return ["graph.pt"]
    if kind == "pickle that imports":
        Path("graph.pt").write_bytes(pickle.dumps(Evil()))
        return ["graph.pt"]
    if kind == "binary csv":
        (graph / "nodes.csv").write_bytes(bytes(range(256)))
    return ["graph"]


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path("executed").touch, ())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("edge to nowhere", "edges.csv line 26: no node has the id 'nobody'"),
        ("nan feature", "nodes.csv line 4: column 'a' of node 'n2' is empty, NaN or infinite"),
        ("infinite feature", "nodes.csv line 4: column 'a' of node 'n2'"),
        ("unequal features", "nodes.csv line 4: rows of unequal length: 3 cells"),
        ("no labels", "no node has a label"),
        ("one class", "all labels are 'x'"),
        ("empty graph", "the graph is empty"),
        ("class without training node", "class 'x' has no training node in the given split"),
        ("truncated npz", "graph.npz is truncated or not an .npz file"),
        ("foreign npz", "graph.npz has no node_labels"),
        ("truncated pt", "graph.pt is truncated or not a PyG Data"),
        ("foreign pt", "graph.pt holds a dict, not a PyG Data"),
        ("pickle that imports", "graph.pt wants to import"),
        ("binary csv", "nodes.csv is not UTF-8 text"),
    ],
)
def test_a_bad_graph_is_one_line_and_exit_2(command: Command, kind: str, words: str) -> None:
    code, out, err = command("train", *make_mistake(kind), *TINY)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("m3dphormer: ")
    assert words in err
    assert not Path("runs").exists()
    assert not Path("executed").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "coar"], "Unknown dataset 'coar'. Did you mean cora?"),
        (["train", "./nothing/here"], "No file or folder './nothing/here'"),
        (["train", "graph.npz"], "No file or folder 'graph.npz'"),
        (["train", "cora", "--root", "nowhere"], "nowhere does not exist"),
        (["train", "digits", "--set", "clusters=5000"], "5000 clusters are more than"),
        (["train", "digits", "--set", "heads=5"], "must divide hidden=64. Got 5"),
        (["train", "digits", "--set", "hiden=5"], "'hiden'. Did you mean hidden"),
        (["train", "digits", "--set", "dropout=2"], "must be a float in the range [0, 1). Got 2"),
        (["train", "digits", "--set", "dropout"], "--set takes key=value. Got 'dropout'"),
        (["train", "digits", "--recipe", "none.toml"], "none.toml cannot be read"),
        (["train", "digits", "--import", "none.py"], "No file 'none.py' to import"),
        (["train", "digits", "--model", "gcm"], "Unknown model 'gcm'"),
        (["train", "digits", "--metric", "roc_auc"], "roc_auc needs two classes"),
        (["train", "digits", "--device", "potato"], "Device 'potato' is not available"),
        (["train", "digits", "--seeds", "0"], "'seeds' parameter must be an int of at least 1"),
        (["train", "digits", "--minutes", "0"], "'minutes' parameter must be a float above 0"),
        (["train", "digits", "--patience", "0"], "must be an int of at least 1 or None. Got 0"),
        (["train", "digits", "--seeds", "few"], "Invalid value for '--seeds'"),
        (["audit", "coar"], "Unknown dataset 'coar'. Did you mean cora?"),
        (["audit", "digits", "--clusters", "few"], "must be an int of at least 1 or 'auto'"),
        (["audit", "digits", "--figure", "audit.txt"], "'audit.txt' must end in .png or .svg"),
        (["audit", "digits", "--nodes", "no/nodes.csv"], "No folder 'no' to write"),
        (["report", "nowhere"], "No run folder 'nowhere'; m3dphormer train makes one."),
        (["report", "."], ". is not the folder of a run"),
        (["report", ".", "--out", "report.pdf"], "'report.pdf' must end in .html"),
        (["compare", "digits", "--models", "mowts,gcn-moe"], "'mowts'. Did you mean mowst"),
        (["compare", "digits", "--models", ","], "There is no model to compare"),
        (
            ["compare", "digits", "--models", "mowst", "--set", "heads=2"],
            "setting of mowst 'heads'",
        ),
        (["compare", "digits"], "Missing option '--models'"),
        (["train"], "Missing argument"),
        (["train", "digits", "--sede", "3"], "No such option: --sede"),
        (["tarin"], "No such command 'tarin'"),
    ],
)
def test_a_bad_command_is_one_line_and_exit_2(
    command: Command, arguments: list[str], words: str
) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err
    assert list(Path.cwd().iterdir()) == []


def test_a_graph_without_edges_trains_with_a_notice(command: Command) -> None:
    write_csv(Path("graph"), edges="source,target\n")
    code, _, err = command("train", "graph", *TINY)
    assert code == 0
    assert err.splitlines() == [
        "notice: graph: the graph has no edges; only cluster and global attention see others."
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

    monkeypatch.setattr(cli, "train_run", interrupted)
    assert command("train", "digits") == (130, "", "m3dphormer: interrupted\n")
    monkeypatch.setattr(cli, "compare_models", interrupted)
    code, out, err = command("compare", "digits", "--models", "mowst")
    assert (code, out) == (130, "")
    words = "interrupted; what is finished is kept, the same command goes on"
    assert err == f"m3dphormer: {words}\n"


def test_plan_prints_regions_and_a_forecast_for_each_scheme(command: Command) -> None:
    code, out, err = command("plan", "hierarchy", "--set", "hidden=32")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line]
    assert ["scheme", "peak", "memory", "s", "/", "epoch", "fits"] in lines
    assert "A dense transformer of as many layers and heads: 88 MB" in out
    assert [line[0] for line in lines[-5:]] == ["fused", "sparse", "dual", "dense", "reference"]


def test_plan_as_json_prints_what_the_contract_says(command: Command) -> None:
    code, out, err = command("plan", "hierarchy", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert set(found["schemes"]) == {"fused", "sparse", "dual", "dense", "reference"}
    for forecast in found["schemes"].values():
        assert set(forecast) == {"peak_bytes", "seconds_per_epoch", "fits"}
    assert {"mask", "rows", "columns", "density", "dual", "fused"} <= set(found["regions"][0])


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
