"""Predictions out of a run folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import m3dphormer as m3d
from m3dphormer import UserError
from m3dphormer.training import predict_run
from m3dphormer.training.predict import average

NUMBERS = ["p_a", "p_b", "gate_local"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    settings = {"hidden": 8, "heads": 1, "layers": 1, "epochs": 3}
    m3d.train("hierarchy", seeds=2, settings=settings, out=str(folder))
    return folder


def saved(run: Path, seed: int) -> pd.DataFrame:
    return pd.read_csv(run / f"seed{seed}" / "predictions.csv")


def shares(table: pd.DataFrame) -> np.ndarray:
    return table.filter(regex="^(p|gate)_").to_numpy()


def test_a_run_gives_back_the_predictions_of_its_best_seed(run: Path) -> None:
    best = m3d.NodeClassifier.load(run).seed
    table = predict_run(str(run))
    assert np.abs(shares(table) - shares(saved(run, best))).max() < 1e-6
    assert table["label"].tolist() == saved(run, best)["label"].tolist()
    assert list(table.columns) == list(saved(run, best).columns)


def test_an_ensemble_is_the_mean_of_all_seeds(run: Path) -> None:
    table = predict_run(str(run), ensemble=True)
    mean = (shares(saved(run, 0)) + shares(saved(run, 1))) / 2
    assert np.abs(shares(table) - mean).max() < 1e-6


def test_the_label_of_a_mean_is_its_most_probable_class() -> None:
    one = pd.DataFrame([["x", "a", 0.6, 0.4, 1.0]], columns=["id", "label", *NUMBERS])
    other = pd.DataFrame([["x", "b", 0.1, 0.9, 0.0]], columns=["id", "label", *NUMBERS])
    assert average([one, other]).iloc[0].tolist() == ["x", "b", 0.35, 0.65, 0.5]


@pytest.mark.parametrize(
    ("place", "options", "words"),
    [
        ("nowhere", {}, "No run folder .*nowhere'; m3dphormer train makes one"),
        ("seed0", {}, "does not say where its graph lies; name one"),
        ("seed0", {"ensemble": True}, "is no finished run with several seeds"),
        (".", {"dataset": "hierachy"}, "Unknown dataset 'hierachy'. Did you mean hierarchy"),
        (".", {"dataset": "digits"}, "digits has 64 features, the classifier was fitted on 32"),
    ],
)
def test_a_mistake_is_one_clear_line(
    run: Path, place: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError, match=words) as caught:
        predict_run(str(run / place), **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_classifier_is_told(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    with pytest.raises(UserError, match="empty holds no run and no classifier; m3dphormer train"):
        predict_run("empty")
    shutil.copytree(run, "begun")
    Path("begun/summary.json").unlink()
    with pytest.raises(UserError, match=r"begun is not finished; .*--resume --out begun, or name"):
        predict_run("begun")
    assert len(predict_run("begun/seed0", "hierarchy"))
