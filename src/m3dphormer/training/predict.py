"""Predictions of a run, for the graph it was trained on or another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from m3dphormer.errors import UserError
from m3dphormer.graph import load
from m3dphormer.training.classifier import NodeClassifier
from m3dphormer.training.files import read_json


def predict_run(
    run: str,
    dataset: str | None = None,
    *,
    ensemble: bool = False,
    root: str | None = None,
    device: str = "cpu",
) -> pd.DataFrame:
    """One row a node: id, label, p_<label>..., gate_<level>...

    Args:
        run: The folder of a run, or of one saved classifier.
        dataset: A known name or a path; None: the graph the run was trained on.
        ensemble: Average over all seeds of the run; False: the seed with the best validation.
        root: Where raw benchmark files lie.
        device: Where to compute.
    """
    folder = Path(run)
    if not folder.is_dir():
        raise UserError(f"No run folder {run!r}; m3dphormer train makes one.")
    places = _seeds(folder) if ensemble else [folder]
    classifiers = [NodeClassifier.load(place, device) for place in places]
    data = load(dataset or _trained_on(folder), root, labels=False)
    return average([classifier.predictions(data) for classifier in classifiers])


def average(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The mean of several tables of predictions for the same nodes, with the labels it gives."""
    numbers = [str(name) for name in tables[0] if str(name).startswith(("p_", "gate_"))]
    mean = tables[0].copy()
    for name in numbers:
        mean[name] = np.mean([table[name].to_numpy() for table in tables], axis=0)
    likeliest = mean.filter(regex="^p_").idxmax(axis=1)
    mean["label"] = [str(name).removeprefix("p_") for name in likeliest]
    return mean


def _seeds(folder: Path) -> list[Path]:
    if not (folder / "summary.json").is_file():
        raise UserError(f"{folder} is no finished run with several seeds; leave --ensemble out.")
    scores = read_json(folder / "summary.json", "scores")["scores"]
    return [folder / f"seed{i}" for i in range(len(scores))]


def _trained_on(folder: Path) -> str:
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder} does not say where its graph lies; name one: m3dphormer predict "
            f"{folder} DATA."
        )
    return str(read_json(folder / "config.json", "dataset")["dataset"])
