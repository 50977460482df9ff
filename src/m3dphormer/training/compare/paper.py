"""Table 2 of the paper: 16 models on nine graphs, mean and standard deviation of five runs."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Score:
    """In percent: ROC-AUC for Minesweeper, accuracy for the rest."""

    mean: float
    std: float

    def z(self, mean: float) -> float:
        """How many of its standard deviations another mean lies above this one."""
        return (mean - self.mean) / self.std


def paper_score(model: str, dataset: str) -> Score | None:
    """What the paper says about a model on a dataset, if it says anything."""
    return _table().get((model, dataset))


@cache
def _table() -> dict[tuple[str, str], Score]:
    with Path(__file__).with_name("paper.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["model"], row["dataset"]): Score(float(row["mean"]), float(row["std"]))
            for row in csv.DictReader(file)
        }
