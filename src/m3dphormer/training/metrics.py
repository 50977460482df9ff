"""What a score means: accuracy, ROC-AUC of two classes, macro f1; each a share in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score
from torch_geometric.data import Data

from m3dphormer.errors import UserError, unknown
from m3dphormer.graph import class_count


def accuracy(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Share of nodes whose most probable class is theirs."""
    return float((probabilities.argmax(axis=1) == y).mean())


def roc_auc(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Area under the ROC curve of the second class; 0.5 for no nodes, or training nodes of one."""
    if len(np.unique(y)) < 2:
        return 0.5
    return float(roc_auc_score(y, probabilities[:, 1]))


def f1(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean over the classes of the harmonic mean of precision and recall."""
    return float(f1_score(y, probabilities.argmax(axis=1), average="macro", zero_division=0))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "roc_auc": roc_auc,
    "f1": f1,
}


def check_metric(metric: str, data: Data) -> str:
    """Refuse an unknown metric, or ROC-AUC without two classes, in a part of the split too."""
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    if metric != "roc_auc":
        return metric
    classes = class_count(data)
    if classes != 2:
        raise UserError(f"roc_auc needs two classes; this graph has {classes}. Take f1 instead.")
    for part, words in (("val", "validation"), ("test", "test")):
        labels = data.y[data[f"{part}_mask"]]
        if len(labels) and len(labels.unique()) == 1:
            raise UserError(
                f"roc_auc needs nodes of both classes; the {words} nodes of {data.name} are all of "
                "one. Take accuracy, or another split."
            )
    return metric
