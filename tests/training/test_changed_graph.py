"""Work that goes on notices that the user's graph is another one by now."""

from __future__ import annotations

from pathlib import Path

import pytest

import m3dphormer as m3d
from command import TINY, Command, write_csv
from m3dphormer import UserError
from m3dphormer.training.compare import compare


def relabel(graph: Path) -> None:
    """Other labels; edges and features stay."""
    header, *rows = (graph / "nodes.csv").read_text().splitlines()
    cells = [row.split(",") for row in rows]
    labels = [row[1] for row in cells]
    turned = [
        ",".join([row[0], label, *row[2:]])
        for row, label in zip(cells, labels[1:] + labels[:1], strict=True)
    ]
    (graph / "nodes.csv").write_text("\n".join([header, *turned]) + "\n")


def test_a_run_is_not_resumed_on_other_labels(command: Command) -> None:
    write_csv(Path("graph"))
    command("train", "graph", *TINY, "--out", "run")
    Path("run/summary.json").unlink()
    Path("run/seed1/result.json").unlink()
    relabel(Path("graph"))
    code, _, err = command("train", "graph", "--out", "run", "--resume")
    assert code == 2
    assert "run was begun with task_hash=" in err


def test_a_comparison_trains_anew_on_other_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(Path("graph"))

    def lines() -> list[str]:
        told: list[str] = []
        compare("graph", ["mlp"], seeds=2, settings={"epochs": 1}, watch=told.append)
        return told

    assert "seed 1" in lines()[-1]
    assert "are there already" in lines()[-1]
    relabel(Path("graph"))
    assert "seed 1" in lines()[-1]


def test_a_search_is_not_gone_on_with_on_other_labels(command: Command) -> None:
    pytest.importorskip("optuna")
    write_csv(Path("graph"))
    search = ("tune", "graph", "--model", "mlp", "--trials", "1", "--epochs", "1", "--out", "t")
    assert command(*search)[0] == 0
    relabel(Path("graph"))
    assert command(*search)[0] == 2


def test_a_search_on_a_device_that_is_not_there_leaves_nothing(command: Command) -> None:
    pytest.importorskip("optuna")
    write_csv(Path("graph"))
    code, _, err = command("tune", "graph", "--trials", "1", "--out", "t", "--device", "cudaa")
    assert (code, err) == (2, "m3dphormer: Device 'cudaa' is not available here; take cpu.\n")
    assert not Path("t").exists()


def test_a_report_tells_that_a_class_was_renamed(command: Command) -> None:
    write_csv(Path("graph"))
    command("train", "graph", *TINY, "--out", "run")
    nodes = Path("graph/nodes.csv")
    nodes.write_text(nodes.read_text().replace(",x,", ",other,"))
    code, _, err = command("report", "run")
    assert code == 0
    assert "graph has changed since the run" in err


def test_columns_are_found_by_name(command: Command) -> None:
    write_csv(Path("graph"))
    data = m3d.load("graph")
    assert data.feature_names == ["a", "b"]
    clf = m3d.NodeClassifier(hidden=8, layers=1, clusters=2, epochs=2).fit(data)
    clf.save("run")
    expected = clf.predict_proba(data)
    Path("other").mkdir()
    rows = [row.split(",") for row in Path("graph/nodes.csv").read_text().splitlines()]
    turned = [",".join([i, label, b, "7" if i != "id" else "more", a]) for i, label, a, b in rows]
    Path("other/nodes.csv").write_text("\n".join(turned) + "\n")
    Path("other/edges.csv").write_text(Path("graph/edges.csv").read_text())
    with pytest.warns(m3d.UserNotice, match="other: not in training, ignored: 'more'"):
        found = m3d.NodeClassifier.load("run").predict_proba(m3d.load("other", labels=False))
    assert (found == expected).all()
    text = Path("other/nodes.csv").read_text()
    Path("other/nodes.csv").write_text(text.replace("id,label,b,", "id,label,c,"))
    with pytest.raises(UserError, match="other has no column 'b', one of the 2 features"):
        clf.predict(m3d.load("other"))
