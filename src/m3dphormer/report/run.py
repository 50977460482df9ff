"""A finished run as it lies in its folder, and the graph it was trained on."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph import load
from m3dphormer.training import Summary
from m3dphormer.training.files import damaged, read_json
from m3dphormer.training.loop import Epoch
from m3dphormer.training.memory import Memory
from m3dphormer.training.memory import load as load_memory
from m3dphormer.training.resume import RECORD
from m3dphormer.training.run import read_result, read_summary


@dataclass(frozen=True)
class Predictions:
    """What one seed says about every node."""

    ids: tuple[str, ...]  # [N]
    label: np.ndarray  # [N] number of the most probable class
    probabilities: np.ndarray  # [N, C]


@dataclass(frozen=True)
class SeedRun:
    """One seed: how it was trained, and what it kept of its graph."""

    place: Path
    history: tuple[Epoch, ...]
    best: Epoch
    seconds: float
    peak_bytes: int | None  # None in a run of a version that did not count it
    memory: Memory

    @classmethod
    def read(cls, place: Path) -> SeedRun:
        """From its folder."""
        best, result = read_result(place)
        try:
            lines = (place / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            history = tuple(Epoch(**json.loads(line)) for line in lines)
        except (OSError, ValueError, TypeError):
            raise damaged(place / "metrics.jsonl") from None
        if not history:
            raise damaged(place / "metrics.jsonl")
        return cls(
            place=place,
            history=history,
            best=best,
            seconds=result["seconds"],
            peak_bytes=result.get("peak_bytes"),
            memory=load_memory(place)[1],
        )

    def predictions(self) -> Predictions:
        """Its predictions.csv; labels and ids stay text, also those that look like numbers."""
        path, names = self.place / "predictions.csv", self.memory.label_names
        try:
            table = pd.read_csv(path, dtype={"id": str, "label": str}, keep_default_na=False)
            probabilities = table.iloc[:, 2 : 2 + len(names)].to_numpy(np.float64)
            label = pd.Index(names).get_indexer(pd.Index(table["label"]))
        except (OSError, ValueError, KeyError):
            raise damaged(path) from None
        return Predictions(tuple(table["id"]), label, probabilities)


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path
    config: dict[str, Any]
    summary: Summary
    seeds: tuple[SeedRun, ...]

    @classmethod
    def read(cls, folder: Path) -> Run:
        """From its folder; refuses one that is no run, or not finished."""
        if not folder.is_dir():
            raise UserError(f"No run folder {str(folder)!r}; m3dphormer train makes one.")
        if not (folder / "config.json").is_file():
            raise UserError(f"{folder} is not the folder of a run; m3dphormer train makes one.")
        config = read_json(folder / "config.json", "dataset", *sorted(RECORD))
        if not (folder / "summary.json").is_file():
            raise UserError(
                f"{folder} is not finished; go on with m3dphormer train {config.get('dataset')} "
                f"--resume --out {folder}."
            )
        summary = read_summary(folder)
        places = [folder / f"seed{number}" for number in range(len(summary.scores))]
        return cls(folder, config, summary, tuple(SeedRun.read(place) for place in places))

    @property
    def best(self) -> SeedRun:
        """The seed with the best validation score."""
        return self.seeds[self.summary.best_seed]

    def load_graph(self, root: str | None) -> Data:
        """Its graph with the labels numbered as in the run, or a UserError that says why not."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserNotice)  # training has told it already
            data = load(self.config["dataset"], root)
        if any(self.config.get(key, data[key]) != data[key] for key in ("graph_hash", "task_hash")):
            raise UserError(f"{self.config['dataset']} has changed since the run.")
        number = {name: i for i, name in enumerate(self.best.memory.label_names)}
        numbers = np.array([*(number.get(name, -1) for name in data.label_names), -1])
        data.y = data.y.new_tensor(numbers[data.y.numpy()])
        data.label_names = list(number)
        return data
