"""The whole experiment: which transformers on which splits, one saved piece at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from m3dphormer import masks
from m3dphormer.experiments.levels.rows import Row, score_split
from m3dphormer.experiments.provenance import provenance
from m3dphormer.graph import load
from m3dphormer.graph.cache import write_atomically
from m3dphormer.theory import vote
from m3dphormer.training import NodeClassifier

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "squirrel", "chameleon")
LEVELS = ("l2", "c3", "g1")
SETTINGS: dict[str, Any] = {
    "hidden": 64,
    "layers": 2,
    "heads": 2,
    "lr": 0.01,
    "attention_dropout": 0.0,
    "epochs": 60,
}
# g1 has N x N pairs: fewer epochs on the larger graphs.
FEWER_EPOCHS = {("photo", "g1"): 20, ("computers", "g1"): 30, ("pubmed", "g1"): 30}
# Row-normalised features of 1/250 would need hundreds of epochs.
SCALED = ("photo", "computers")


def run_levels(
    datasets: Sequence[str],
    target: Path,
    *,
    splits: int = 3,
    root: str | None = None,
    work: Path = Path("runs/levels"),
    settings: dict[str, Any] | None = None,
    watch: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """Train what is missing, append the rows of every finished split to a csv, give all rows.

    Args:
        datasets: Names of graphs.
        target: The csv; splits of which it has every mask are not repeated.
        splits: How many splits; split i is trained with initial seed i.
        root: Where raw benchmark files lie.
        work: Where the predictions of each trained transformer are kept, so that a run that was
            ended goes on where it was.
        settings: Settings that replace some of the experiment's own.
        watch: Told about every finished piece.
    """
    settings = {**SETTINGS, **(settings or {})}
    for dataset in datasets:
        for split in range(splits):
            if _has(target, dataset, split):
                continue
            data = load(dataset, root=root, split=split)
            said, seconds = {}, 0.0
            epochs = {name: _epochs(dataset, name, settings["epochs"]) for name in LEVELS}
            for name in LEVELS:
                path = work / f"{dataset}-{split}-{name}.npz"
                if not path.is_file():
                    _train(name, data, {**settings, "epochs": epochs[name]}, path)
                    watch(str(path))
                with np.load(path) as piece:
                    said[name] = piece["probabilities"]
                    seconds += float(piece["seconds"])
            votes = {name: vote(masks.build(name, data), data) for name in said}
            rows = [
                {**row, "epochs": epochs.get(row["what"])} for row in score_split(said, votes, data)
            ]
            _append(target, rows, dataset, split, seconds)
            watch(f"{dataset}, split {split}")
    return pd.read_csv(target)


def _epochs(dataset: str, mask: str, epochs: int) -> int:
    return min(epochs, FEWER_EPOCHS.get((dataset, mask), epochs))


def _train(name: str, data: Data, settings: dict[str, Any], path: Path) -> None:
    start = time.perf_counter()
    seen = data.clone()
    if data.name in SCALED:
        seen.x = data.x / data.x.square().mean().sqrt()
    classifier = NodeClassifier(experts=[name], seed=data.split, **settings).fit(seen)
    probabilities = classifier.predict_proba(seen)
    seconds = time.perf_counter() - start
    write_atomically(path, lambda part: _save(part, probabilities, seconds))


def _save(path: Path, probabilities: np.ndarray, seconds: float) -> None:
    with path.open("wb") as file:
        np.savez(file, probabilities=probabilities, seconds=seconds)


def _has(target: Path, dataset: str, split: int) -> bool:
    if not target.is_file():
        return False
    done = pd.read_csv(target, usecols=["dataset", "split", "what"])
    here = done[(done["dataset"] == dataset) & (done["split"] == split)]
    return set(LEVELS) <= set(here["what"])


def _append(target: Path, rows: list[Row], dataset: str, split: int, seconds: float) -> None:
    said = {
        "seconds": round(seconds, 1),
        "command": f"python benchmarks/levels.py --datasets {dataset}",
        **provenance(),
    }
    table = pd.DataFrame([{"dataset": dataset, "split": split, **row, **said} for row in rows])
    table = table.astype({"epochs": "Int64"})
    target.parent.mkdir(parents=True, exist_ok=True)
    header = not target.is_file()
    table.to_csv(target, mode="a", header=header, index=False, float_format="%.4f")
