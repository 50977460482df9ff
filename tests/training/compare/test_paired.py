from __future__ import annotations

import math

import numpy as np
import pytest

from m3dphormer.training.compare.paired import corrected_test, holm


def distribution_4(t: float) -> float:
    """Student's with four degrees of freedom, in closed form."""
    u = 1 + t * t / 4
    return 0.5 + 3 / 8 * t / math.sqrt(u) * (1 - t * t / (12 * u))


def test_the_corrected_test_has_the_values_of_a_calculation_by_hand() -> None:
    found = corrected_test([1.0, 2.0, 3.0, 4.0, 5.0], test_over_train=0.5)
    error = math.sqrt((1 / 5 + 0.5) * 2.5)
    assert found.difference == pytest.approx(3)
    assert found.high - 3 == pytest.approx(2.7764451 * error)  # the table's t for 97.5 %, 4 degrees
    assert 3 - found.low == pytest.approx(2.7764451 * error)
    assert found.p == pytest.approx(2 * (1 - distribution_4(3 / error)))


def test_without_the_correction_it_is_the_plain_paired_t_test() -> None:
    given = [0.4, -0.1, 0.9, 0.3]
    found = corrected_test(given, test_over_train=0.0)
    half = 3.1824463 * np.std(given, ddof=1) / 2
    assert (found.low, found.high) == pytest.approx((0.375 - half, 0.375 + half))


def test_the_sign_changes_nothing_but_the_sign() -> None:
    one, other = corrected_test([1.0, 2.0, 4.0], 0.5), corrected_test([-1.0, -2.0, -4.0], 0.5)
    assert one.p == pytest.approx(other.p)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


@pytest.mark.parametrize(
    "differences",
    [[0.0, 0.0], [2.0, 2.0, 2.0], [-0.3, -0.3], [80.1 - 79.8, 75.4 - 75.1, 61.7 - 61.4]],
)
def test_differences_without_spread_are_no_evidence_of_certainty(differences: list[float]) -> None:
    assert corrected_test(differences, 0.5) is None


def test_a_small_spread_is_one() -> None:
    found = corrected_test([2.0, 2.0, 2.01], 0.5)
    assert found is not None
    assert found.low < 2.0 < found.high
    assert 0 < found.p < 0.001


def test_the_interval_covers_as_often_as_it_says_where_splits_overlap() -> None:
    """Scores of overlapping splits are correlated by n_test / (n_test + n_train)."""
    rng, ratio, splits, draws = np.random.default_rng(0), 0.5, 5, 2000
    correlation = ratio / (1 + ratio)
    shared = rng.standard_normal((draws, 1)) * math.sqrt(correlation)
    given = 1 + shared + rng.standard_normal((draws, splits)) * math.sqrt(1 - correlation)

    def coverage(correction: float) -> float:
        found = [corrected_test(row.tolist(), correction) for row in given]
        return float(np.mean([one.low <= 1 <= one.high for one in found]))

    assert coverage(ratio) == pytest.approx(0.95, abs=0.01)
    assert coverage(0.0) < 0.80  # the plain test claims too much


def test_holm_steps_down_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_holm_keeps_any_false_claim_rare() -> None:
    ps = np.random.default_rng(0).random((4000, 8))
    claimed = np.mean([min(holm(row.tolist())) < 0.05 for row in ps])
    assert claimed == pytest.approx(0.05, abs=0.012)
