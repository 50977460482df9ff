from __future__ import annotations

import numpy as np
import pytest

from graphs import random_graph
from m3dphormer.errors import UserError
from m3dphormer.training.metrics import METRICS, check_metric

P = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])


def test_scores_by_hand() -> None:
    y = np.array([0, 0, 1, 1])
    assert METRICS["accuracy"](P, y) == 0.5
    assert METRICS["roc_auc"](P, y) == 3 / 4  # of the four pairs one is in the wrong order
    assert METRICS["f1"](P, y) == 0.5


def test_f1_is_the_mean_over_classes() -> None:
    y = np.array([0, 1, 1, 1])
    assert METRICS["f1"](P, y) == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_roc_auc_with_one_class_is_no_better_than_chance() -> None:
    assert METRICS["roc_auc"](P, np.zeros(4, int)) == 0.5


@pytest.mark.parametrize(
    ("metric", "classes", "words"),
    [
        ("roc_auc", 3, "needs two classes; this graph has 3"),
        ("acuracy", 2, "Did you mean accuracy"),
    ],
)
def test_metrics_that_do_not_fit_are_refused(metric: str, classes: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        check_metric(metric, random_graph(classes=classes))


@pytest.mark.parametrize(("part", "words"), [("val", "validation"), ("test", "test")])
def test_roc_auc_is_refused_where_a_part_has_one_class(part: str, words: str) -> None:
    data = random_graph(classes=2)
    assert check_metric("roc_auc", data) == "roc_auc"
    data[f"{part}_mask"] &= data.y == 0
    with pytest.raises(UserError, match=f"the {words} nodes of random are all of one. Take acc"):
        check_metric("roc_auc", data)
    assert check_metric("accuracy", data) == "accuracy"
