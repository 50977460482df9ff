"""How sure a difference between two models on shared splits is.

Splits overlap, so that scores on them are not independent, and the plain t-test claims too much.
Nadeau and Bengio, "Inference for the Generalization Error" (2003), widen it: the mean of n
differences has the variance (1/n + n_test / n_train) s^2.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t as student

ROUNDING = 1e-9  # of scores in percent: a spread below it is none


@dataclass(frozen=True)
class Paired:
    """A mean difference with its interval, and the probability of one as far from 0 by chance."""

    difference: float
    low: float
    high: float
    p: float


def corrected_test(
    differences: Sequence[float], test_over_train: float, level: float = 0.95
) -> Paired | None:
    """The corrected resampled t-test of at least two differences, one a split.

    None where all are the same: chance is told from their spread, and without any the test would
    be certain of the difference, or of there being none, after two splits.

    Args:
        test_over_train: How many test nodes there are for each training node.
        level: Of the interval.
    """
    if max(differences) - min(differences) < ROUNDING:
        return None
    n, mean = len(differences), statistics.fmean(differences)
    error = statistics.stdev(differences) * math.sqrt(1 / n + test_over_train)
    half = float(student.ppf((1 + level) / 2, n - 1)) * error
    p = 2 * float(student.sf(abs(mean) / error, n - 1))
    return Paired(mean, mean - half, mean + half, p)


def holm(ps: Sequence[float]) -> list[float]:
    """p-values of a family of tests, adjusted so that any false claim has the stated probability.

    Holm's step-down: the smallest of m is multiplied by m, the next by m - 1, ...; none falls below
    the one before it.
    """
    adjusted, most = [0.0] * len(ps), 0.0
    for done, at in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        most = max(most, min(1.0, (len(ps) - done) * ps[at]))
        adjusted[at] = most
    return adjusted
