"""A mistake of the user is one line on stderr and exit code 2."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from command import TINY, Command, write_csv
from conftest import PROJECT
from m3dphormer import __main__, cli


def test_an_experiment_that_is_not_there_is_told(command: Command) -> None:
    code, _, err = command("reproduce", "tabel3")
    assert code == 2
    assert err == "m3dphormer: Unknown experiment 'tabel3'. Did you mean table3?\n"


def test_python_m_is_the_same_command_and_no_traceback_reaches_the_user() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "m3dphormer", "train", "coar"], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == "m3dphormer: Unknown dataset 'coar'. Did you mean cora?\n"


@pytest.mark.parametrize("library", ["typer", "torch"])
def test_ctrl_c_while_libraries_are_imported_is_one_line(tmp_path: Path, library: str) -> None:
    (tmp_path / f"{library}.py").write_text("raise KeyboardInterrupt\n")
    search = os.pathsep.join([str(tmp_path), *sys.path])
    run = subprocess.run(
        [sys.executable, "-m", "m3dphormer", "train", "digits"],
        env={**os.environ, "PYTHONPATH": search},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "m3dphormer: interrupted\n")


def test_the_installed_command_is_the_one_that_minds_ctrl_c() -> None:
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'm3dphormer = "{__main__.__name__}:{__main__.main.__name__}"' in text


# Mistakes that people make: one clear line, exit code 2, nothing written.


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
        (["train", "digits", "--minutes", "0"], "must be a float in the range (0, inf). Got 0.0"),
        (["train", "digits", "--patience", "0"], "must be an int of at least 1 or None. Got 0"),
        (["train", "digits", "--seeds", "few"], "Invalid value for '--seeds'"),
        (["audit", "coar"], "Unknown dataset 'coar'. Did you mean cora?"),
        (["audit", "digits", "--clusters", "few"], "must be an int of at least 1 or 'auto'"),
        (["audit", "digits", "--clusters", "²"], "must be an int of at least 1 or 'auto'"),
        (["audit", "digits", "--clusters", "-1"], "must be an int of at least 1 or 'auto'"),
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


BEGINNINGS = {"reproduce": ["table3"], "bench": [], "compare": ["digits", "--models", "mlp"]}


def numeric_options() -> list[tuple[str, str, str]]:
    """Command, option and "int" or "float", of every option that takes a number."""
    found = []
    for command in cli.app.registered_commands:
        assert command.callback is not None
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            taken, *told = get_args(hint) or (hint,)
            kind = next((kind for kind in ("int", "float") if kind in str(taken)), None)
            if kind is not None:
                given = [text for one in told for text in (one.default, *(one.param_decls or ()))]
                named = [text for text in given if str(text).startswith("--")]
                found.append((command.callback.__name__, *(named or [f"--{name}"]), kind))
    return found


def test_the_numeric_options_are_found() -> None:
    found = {(name, option) for name, option, _ in numeric_options()}
    assert found >= {("train", "--checkpoint"), ("bench", "--seconds"), ("compare", "--tune")}


@pytest.mark.parametrize(("name", "option", "kind"), numeric_options())
def test_a_number_without_meaning_is_one_line_and_exit_2(
    command: Command, name: str, option: str, kind: str
) -> None:
    for value in ["-1"] if kind == "int" else ["-3", "nan", "inf"]:
        code, out, err = command(name, *BEGINNINGS.get(name, ["digits"]), option, value)
        assert (code, out) == (2, "")
        assert err.startswith("m3dphormer: The '")
        assert f"Got {float(value) if kind == 'float' else value}." in err
        assert err.count("\n") == 1
        assert list(Path.cwd().iterdir()) == []


def test_a_graph_without_edges_trains_with_a_notice(command: Command) -> None:
    write_csv(Path("graph"), edges="source,target\n")
    code, _, err = command("train", "graph", *TINY)
    assert code == 0
    assert err.splitlines() == [
        "notice: graph: the graph has no edges; only cluster and global attention see others."
    ]


def test_what_cannot_be_written_is_told_in_a_line(command: Command) -> None:
    write_csv(Path("graph"))
    command("train", "graph", *TINY, "--out", "run")
    Path("taken.csv").mkdir()
    code, out, err = command("predict", "run", "--out", "taken.csv")
    assert (code, out) == (2, "")
    assert err.startswith("m3dphormer: ")
    assert "taken.csv" in err
    assert err.count("\n") == 1


def test_brackets_in_a_path_are_no_markup(command: Command) -> None:
    write_csv(Path("graph"))
    code, out, _ = command("train", "graph", *TINY, "--out", "run[/b] [red]")
    assert code == 0
    assert "Run folder: run[/b] [red]\n" in out


def test_more_seeds_than_splits_are_refused_before_any_is_trained(command: Command) -> None:
    data = Data(x=torch.randn(24, 2), edge_index=torch.randint(24, (2, 40)), y=torch.arange(24) % 3)
    parts = torch.arange(24)[:, None].expand(-1, 2) // 3 % 4
    data.train_mask, data.val_mask, data.test_mask = parts < 2, parts == 2, parts == 3
    torch.save(data, "two.pt")
    for asked in (("train",), ("compare", "--models", "mlp")):
        code, _, err = command(asked[0], "two.pt", *asked[1:])
        assert (code, err) == (2, "m3dphormer: two came with 2 splits; take --seeds 2 or fewer.\n")
