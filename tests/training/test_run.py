from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import m3dphormer as m3d
from m3dphormer import UserError

TINY = {"hidden": 8, "heads": 1, "layers": 1, "epochs": 3}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_folder_tells_the_whole_story() -> None:
    summary = m3d.train("hierarchy", seeds=2, settings=TINY)
    run = Path(summary.run)
    assert run == Path("runs/hierarchy-m3dphormer-1")

    config = json.loads((run / "config.json").read_text())
    assert config["settings"]["hidden"] == 8
    assert config["settings"]["preset"] == "official"
    assert config["source"].startswith("generated")
    assert set(config["versions"]) >= {"python", "torch", "m3dphormer"}

    for seed in range(2):
        data = m3d.load("hierarchy", split=seed)
        lines = (run / f"seed{seed}" / "metrics.jsonl").read_text().splitlines()
        epochs = [json.loads(line) for line in lines]
        assert [e["epoch"] for e in epochs] == [1, 2, 3]
        assert set(epochs[0]) == {"epoch", "loss", "train", "val", "test", "seconds"}
        best = max(epochs, key=lambda e: e["val"])
        assert summary.scores[seed] == 100 * best["test"]

        stored = np.load(run / f"seed{seed}" / "graph.npz")
        assert np.array_equal(stored["train"], data.train_mask)
        model = json.loads((run / f"seed{seed}" / "model.json").read_text())
        assert model["memory"]["split_hash"] == data.split_hash

        clf = m3d.NodeClassifier.load(run / f"seed{seed}")
        table = pd.read_csv(run / f"seed{seed}" / "predictions.csv")
        assert table["label"].tolist() == clf.predict(data).tolist()
        right = (table["label"] == [data.label_names[c] for c in data.y])[data.test_mask.numpy()]
        assert 100 * right.mean() == pytest.approx(summary.scores[seed])

    assert json.loads((run / "summary.json").read_text())["mean"] == summary.mean
    assert summary.mean == statistics.fmean(summary.scores)
    assert summary.std == statistics.stdev(summary.scores)


def test_scalars_of_numpy_are_recorded_as_those_of_python() -> None:
    settings = {**TINY, "hidden": np.int64(8), "dropout": np.float32(0.5), "bias": np.bool_(True)}
    summary = m3d.train("hierarchy", seeds=np.int64(1), settings=settings)  # type: ignore[arg-type]
    config = json.loads((Path(summary.run) / "config.json").read_text())
    assert config["given"] == {**TINY, "dropout": 0.5, "bias": True}
    assert config["seeds"] == 1


def test_the_classifier_of_a_run_is_the_seed_with_the_best_validation() -> None:
    summary = m3d.train("hierarchy", seeds=2, settings=TINY)
    best = int(np.argmax(summary.validation))
    assert m3d.NodeClassifier.load(summary.run).seed == best


def test_the_same_run_twice_gives_the_same_numbers_in_two_folders() -> None:
    one, other = (m3d.train("hierarchy", seeds=2, settings=TINY) for _ in range(2))
    assert one.scores == other.scores
    assert (one.run, other.run) == ("runs/hierarchy-m3dphormer-1", "runs/hierarchy-m3dphormer-2")


def test_one_seed_has_no_spread() -> None:
    assert m3d.train("hierarchy", seeds=1, settings=TINY).std is None


@pytest.mark.parametrize(
    "bad",
    [
        {"dataset": "hierachy"},
        {"settings": {**TINY, "clusters": 5000}},
        {"settings": {"heads": 7}},
        {"metric": "roc_auc"},
        {"seeds": 0},
        {"device": "potato"},
        {"model": "gnc"},
    ],
)
def test_a_mistake_leaves_nothing_half_written(bad: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(UserError):
        m3d.train(**{"dataset": "hierarchy", "seeds": 1, "settings": TINY, **bad})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_in_use_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="exists and is not an empty folder; choose another --out"):
        m3d.train("hierarchy", seeds=1, settings=TINY, out="mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
