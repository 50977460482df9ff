"""Scores of a run: their interval over seeds, what guessing would get, and each class alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from m3dphormer.training.metrics import METRICS

SURE = 0.95


@dataclass(frozen=True)
class ClassScore:
    """How well one class is told; None where nothing was predicted, or nothing is there."""

    name: str
    precision: float | None
    recall: float | None
    f1: float | None
    support: int


def interval(scores: Sequence[float]) -> tuple[float, float] | None:
    """Student's interval for a mean in percent; None for a single score."""
    if len(scores) < 2:
        return None
    error = statistics.stdev(scores) / math.sqrt(len(scores))
    half = float(t.ppf((1 + SURE) / 2, len(scores) - 1)) * error
    mean = statistics.fmean(scores)
    return max(mean - half, 0.0), min(mean + half, 100.0)


def guess(y: np.ndarray, train: np.ndarray, test: np.ndarray, metric: str, classes: int) -> float:
    """Score in percent of always answering the most frequent training class."""
    most = np.bincount(y[train], minlength=classes).argmax()
    answers = np.zeros((int(test.sum()), classes))
    answers[:, most] = 1
    return 100 * METRICS[metric](answers, y[test])


def count_confusion(true: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Nodes of each true class (row) by predicted class (column), [C, C]."""
    return np.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)


def score_classes(confusion: np.ndarray, names: Sequence[str]) -> list[ClassScore]:
    """Precision, recall and F1 of every class."""
    right, there, said = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    return [
        ClassScore(
            name=name,
            precision=_share(right[i], said[i]),
            recall=_share(right[i], there[i]),
            f1=_share(2 * right[i], there[i] + said[i]),
            support=int(there[i]),
        )
        for i, name in enumerate(names)
    ]


def _share(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None
