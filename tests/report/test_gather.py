from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

import m3dphormer as m3d
from conftest import PROJECT
from m3dphormer import UserError
from m3dphormer.report import masks
from m3dphormer.report.gather import Report, gather, reproduce
from m3dphormer.report.nodes import HARDEST


@pytest.fixture(scope="module")
def report(plain_run: Path) -> Report:
    return gather(plain_run)


def truth_and_answers(plain_run: Path) -> tuple[list[str], list[str], list[float]]:
    """Test nodes of all seeds: their labels, what predictions.csv says, what guessing gets."""
    true, said, guessed = [], [], []
    for seed in range(2):
        data = m3d.load("hierarchy", split=seed)
        names = np.array(data.label_names)
        table = pd.read_csv(plain_run / f"seed{seed}" / "predictions.csv", dtype={"label": str})
        test = data.test_mask.numpy()
        true += names[data.y[test]].tolist()
        said += table["label"][test].tolist()
        most = pd.Series(names[data.y[data.train_mask]]).mode()[0]
        guessed.append(100 * float(np.mean(names[data.y[test]] == most)))
    return true, said, guessed


def test_the_scores_are_those_of_sklearn(plain_run: Path, report: Report) -> None:
    true, said, guessed = truth_and_answers(plain_run)
    labels = list(report.labels)
    assert report.confusion is not None
    assert np.array_equal(report.confusion, confusion_matrix(true, said, labels=labels))
    expected = precision_recall_fscore_support(true, said, labels=labels, zero_division=0)
    for i, one in enumerate(report.classes):
        assert one.name == labels[i]
        found = (one.precision or 0, one.recall, one.f1, one.support)
        assert found == pytest.approx([column[i] for column in expected])
    assert report.mean == pytest.approx(100 * accuracy_score(true, said))
    assert report.guess == pytest.approx(np.mean(guessed))


def test_the_interval_is_students(report: Report) -> None:
    expected = stats.t.interval(
        0.95, len(report.scores) - 1, loc=np.mean(report.scores), scale=stats.sem(report.scores)
    )
    assert report.interval == pytest.approx(np.clip(expected, 0, 100))


def test_curves_costs_and_settings_are_those_of_the_files(plain_run: Path, report: Report) -> None:
    for seed, (history, cost) in enumerate(zip(report.histories, report.costs, strict=True)):
        lines = (plain_run / f"seed{seed}" / "metrics.jsonl").read_text().splitlines()
        assert [asdict(epoch) for epoch in history] == [json.loads(line) for line in lines]
        result = json.loads((plain_run / f"seed{seed}" / "result.json").read_text())
        assert cost.seconds == result["seconds"]
        assert cost.peak_bytes == result["peak_bytes"] > 50e6
        assert cost.per_epoch == pytest.approx(history[-1].seconds / 12)
    settings = {one.name: one for one in report.settings}
    assert (settings["hidden"].value, settings["hidden"].given) == ("8", True)
    assert (settings["dropout"].value, settings["dropout"].given) == ("0.5", False)
    assert settings["experts"].value == "l2,c4,g3"


def test_gates_are_means_over_alike_nodes(plain_run: Path, report: Report) -> None:
    data = m3d.load("hierarchy")
    gates = m3d.NodeClassifier.load(plain_run).gates(data)
    degree = np.bincount(data.edge_index[0], minlength=data.num_nodes)
    assert report.gate_names == ("local", "cluster", "global")
    assert len(report.gates) == 2
    for layer, found in zip(gates, report.gates, strict=True):
        assert sum(one.nodes for one in found.by_degree) == data.num_nodes
        assert sum(one.nodes for one in found.by_homophily) == data.num_nodes
        (one,) = [one for one in found.by_degree if one.label == "5 to 8"]
        within = (degree >= 5) & (degree <= 8)
        assert one.nodes == within.sum() > 0
        assert one.shares == pytest.approx(layer[within].mean(axis=0))
        for one in (*found.by_degree, *found.by_homophily):
            assert sum(one.shares) == pytest.approx(1)


def test_the_hardest_nodes_are_test_nodes_with_the_least_probability(
    plain_run: Path, report: Report
) -> None:
    data = m3d.load("hierarchy", split=report.best_seed)
    table = pd.read_csv(plain_run / f"seed{report.best_seed}" / "predictions.csv")
    p = table.filter(regex="^p_").to_numpy()[np.arange(data.num_nodes), data.y]
    worst = sorted((p[node], node) for node in np.flatnonzero(data.test_mask))[:HARDEST]
    assert [one.id for one in report.hardest] == [str(node) for _, node in worst]
    gates = m3d.NodeClassifier.load(plain_run).gates(data)[-1]
    neighbours = [data.edge_index[1][data.edge_index[0] == node] for _, node in worst]
    for one, (probability, node), near in zip(report.hardest, worst, neighbours, strict=True):
        assert one.probability == pytest.approx(probability)
        assert one.true == data.label_names[data.y[node]]
        assert one.predicted == str(table["label"][node])
        assert one.degree == len(near)
        assert one.homophily == pytest.approx(float((data.y[near] == data.y[node]).double().mean()))
        assert one.gates == pytest.approx(gates[node])


def test_masks_are_those_of_the_experts_and_audited_on_the_runs_clusters(
    plain_run: Path, report: Report
) -> None:
    assert [one.level for one in report.pictures] == ["local", "cluster", "global"]
    assert [one.name.split("(")[0] for one in report.pictures] == ["l2", "c4", "g3"]
    assert report.audit is not None
    table = report.audit.tables[0]
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    for one in (report.pictures[0], report.pictures[2]):
        assert rows[one.name.split("(")[0]]["non-zeros"] == f"{one.pairs:,}"
    clusters = len(np.unique(np.load(plain_run / "seed0" / "graph.npz")["cluster"]))
    assert rows["c1"]["non-zeros"] == f"{clusters**2:,}"


def test_a_large_graph_is_audited_when_asked(
    plain_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masks, "AUDITED_NODES", 10)
    report = gather(plain_run)
    assert report.audit is None
    assert report.missing[0].endswith(f"m3dphormer report {plain_run} --audit")
    assert gather(plain_run, audit=True).audit is not None


def test_odd_names_and_unlabelled_nodes_are_counted_right(odd_run: Path) -> None:
    report = gather(odd_run)
    assert set(report.labels) == {one.name for one in report.classes}
    assert {"007", "NA"} <= set(report.labels)
    assert report.interval is None
    assert report.confusion is not None
    assert report.confusion.sum() == report.graph.test == 20  # type: ignore[union-attr]
    assert all(one.id.startswith("<b>") for one in report.hardest)
    assert report.mean == pytest.approx(100 * report.confusion.trace() / 20)


def test_without_its_graph_a_run_still_tells_what_its_folder_knows(
    odd_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(odd_run, tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**config, "dataset": "./gone"}))
    report = gather(tmp_path / "run")
    assert report.classes == report.gates == report.hardest == report.pictures == []
    assert report.guess is None
    assert report.audit is None
    assert len(report.histories) == 1
    (why,) = report.missing
    assert "No file or folder './gone'" in why
    config = {**config, "graph_hash": "another"}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    assert "has changed since the run" in gather(tmp_path / "run").missing[0]


def test_a_run_of_an_unknown_model_is_told_without_gates(plain_run: Path, tmp_path: Path) -> None:
    shutil.copytree(plain_run, tmp_path / "run")
    best = json.loads((plain_run / "summary.json").read_text())["best_seed"]
    path = tmp_path / "run" / f"seed{best}" / "model.json"
    path.write_text(path.read_text().replace('"m3dphormer"', '"mine"'))
    report = gather(tmp_path / "run")
    assert report.gates == []
    (missing,) = report.missing
    assert missing.startswith("Gates are left out: Unknown model 'mine'.")
    assert report.hardest[0].gates == ()


def test_what_is_no_finished_run_is_refused(plain_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No run folder 'nowhere'; m3dphormer train makes one"):
        gather(Path("nowhere"))
    with pytest.raises(UserError, match="tests is not the folder of a run"):
        gather(PROJECT / "tests")
    shutil.copytree(plain_run, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    way_on = "is not finished; go on with m3dphormer train hierarchy --resume --out"
    with pytest.raises(UserError, match=way_on):
        gather(tmp_path / "run")


def test_the_command_to_reproduce_a_run_is_quoted() -> None:
    config = {
        "dataset": "my graph",
        "model": "m3dphormer",
        "seeds": 2,
        "metric": "f1",
        "device": "cuda",
        "given": {"experts": ["l2", "g3"], "bias": False, "hidden": 8},
    }
    assert reproduce(config) == (
        "m3dphormer train 'my graph' --model m3dphormer --seeds 2 --metric f1 "
        "--set experts=l2,g3 --set bias=false --set hidden=8 --device cuda"
    )
