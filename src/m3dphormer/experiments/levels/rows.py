"""From the predictions of single-mask transformers on one split to rows of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Data

from m3dphormer.theory import Vote

Row = dict[str, Any]


def score_split(
    probabilities: Mapping[str, np.ndarray], votes: Mapping[str, Vote], data: Data
) -> list[Row]:
    """One row a mask (accuracy and the AUC of both scores), one row a way to join the masks.

    ``mean`` and ``max`` join the probabilities, ``oracle`` is right where any mask is, and
    ``trusted`` takes for each node the mask with the largest predicting score.

    Args:
        probabilities: What the transformer of each mask says, [N, C].
        votes: The vote of each mask.
        data: The graph with the split that both were made on.
    """
    test, y = data.test_mask.numpy(), data.y.numpy()[data.test_mask.numpy()]
    said = np.stack([probabilities[name][test] for name in probabilities])  # [masks, test, C]
    right = said.argmax(axis=2) == y  # [masks, test]
    explains, predicts = (
        np.stack([score[test] for score in scores])
        for scores in (
            [votes[name].explains(data.y).numpy() for name in probabilities],
            [votes[name].predicts.numpy() for name in probabilities],
        )
    )
    rows: list[Row] = [
        {
            "what": name,
            "accuracy": float(right[i].mean()),
            "explains_auc": _auc(right[i], explains[i]),
            "predicts_auc": _auc(right[i], predicts[i]),
            "tau": votes[name].tau,
        }
        for i, name in enumerate(probabilities)
    ]
    joined = {
        "mean": said.mean(axis=0).argmax(axis=1) == y,
        "max": said.max(axis=0).argmax(axis=1) == y,
        "trusted": right[predicts.argmax(axis=0), np.arange(len(y))],
        "oracle": right.any(axis=0),
    }
    return rows + [{"what": name, "accuracy": float(hit.mean())} for name, hit in joined.items()]


def _auc(right: np.ndarray, score: np.ndarray) -> float:
    """Chance that a node the model has right scores higher than one it has wrong."""
    if right.all() or not right.any():
        return float("nan")
    return float(roc_auc_score(right, score))
