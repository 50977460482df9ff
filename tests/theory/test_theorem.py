"""The theorem against simulation, to three standard errors of a fixed-seed Monte-Carlo run."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from m3dphormer.errors import UserError
from m3dphormer.theory import Field, Normal, class_node, unequal

DRAWS = 40_000
SIGMA = [0.5, 1.0, 2.0]
FIELD = Field(k=10, rho=[0.5, 0.3, 0.2], alpha=[0.15, 0.05, 0.05], sigma=SIGMA, own=0)
CLASSES = np.repeat([0, 1, 2], [5, 3, 2])


def draw_scores(weights: np.ndarray, classes: np.ndarray, own: int = 0) -> np.ndarray:
    """ẑ_u · μ_own with prototypes e_0, e_1, e_2 in five dimensions, as the paper draws them."""
    rng = np.random.default_rng(0)
    z = np.eye(3, 5)[classes] + np.asarray(SIGMA)[classes][:, None] * rng.standard_normal(
        (DRAWS, len(classes), 5)
    )
    return (weights[:, None] * z).sum(axis=1)[:, own]


def assert_law(scores: np.ndarray, law: Normal, threshold: float) -> None:
    n = len(scores)
    assert abs(scores.mean() - law.mean) < 3 * np.sqrt(law.variance / n)
    assert abs(scores.var(ddof=1) - law.variance) < 3 * law.variance * np.sqrt(2 / (n - 1))
    chance = law.above(threshold)
    assert abs((scores >= threshold).mean() - chance) < 3 * np.sqrt(chance * (1 - chance) / n)


@pytest.mark.parametrize("own", [0, 1])
def test_mean_variance_and_probability_are_those_of_a_simulation(own: int) -> None:
    field = Field(FIELD.k, FIELD.rho, FIELD.alpha, FIELD.sigma, own)
    weights = np.asarray(FIELD.alpha)[CLASSES]
    assert_law(draw_scores(weights, CLASSES, own), field.score(), threshold=0.4)


def test_unequal_weights_have_the_exact_variance_and_not_the_theorems() -> None:
    weights = np.array([0.71, 0.01, 0.01, 0.01, 0.01, 0.05, 0.05, 0.05, 0.05, 0.05])
    law = unequal(weights, CLASSES, SIGMA, own=0)
    scores = draw_scores(weights, CLASSES)
    assert_law(scores, law, threshold=0.5)
    assert law.mean == pytest.approx(FIELD.score().mean)  # the same mean weight of the class
    error = 3 * law.variance * np.sqrt(2 / DRAWS)
    assert abs(scores.var(ddof=1) - FIELD.variance) > error


def test_equal_weights_are_the_theorem() -> None:
    law = unequal(np.asarray(FIELD.alpha)[CLASSES], CLASSES, SIGMA, own=0)
    assert law.mean == pytest.approx(FIELD.score().mean)
    assert law.variance == pytest.approx(FIELD.variance)


def test_the_mean_is_a_mixture_of_prototypes() -> None:
    assert FIELD.mean == pytest.approx([0.75, 0.15, 0.1])
    assert FIELD.mean.sum() == pytest.approx(1)


def test_a_class_node_is_its_prototype_with_the_noise_of_a_mean() -> None:
    count = 25
    law = class_node(sigma=1.0, count=count)
    assert law == Normal(1.0, pytest.approx(1 / 25))
    scores = draw_scores(np.full(count, 1 / count), np.ones(count, int), own=1)
    assert_law(scores, law, threshold=0.9)


def test_without_noise_the_chance_is_a_step() -> None:
    assert Normal(0.5, 0.0).above(0.5) == 1.0
    assert Normal(0.5, 0.0).above(0.6) == 0.0
    assert Normal(0.0, 4.0).above(2.0) == pytest.approx(norm.sf(1))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": [0.2, 0.05, 0.05]}, "must sum to 1: sum of k rho alpha is 1.25"),
        ({"rho": [0.5, 0.3, 0.3]}, "rho must sum to 1. Got 1.1"),
        ({"k": 0}, "k of at least 1"),
        ({"sigma": [-1.0, 1.0, 1.0]}, "no negative"),
        ({"own": 3}, "own among them"),
    ],
)
def test_what_no_attention_can_be_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Field(**{**vars(FIELD), **changes})  # type: ignore[arg-type]
    with pytest.raises(UserError, match="sum to 1"):
        unequal([0.5, 0.6], [0, 1], SIGMA, own=0)
