"""The bounds hold where they may, are refused elsewhere, and move as Proposition 1 says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from m3dphormer.errors import UserError
from m3dphormer.theory import Field, bounds, in_domain, sweep, unequal


@st.composite
def fields(draw: st.DrawFn) -> Field:
    """Any field in the domain: 0 <= α_c' <= 1/k <= α_c <= 1/(k ρ_c)."""
    counts = draw(st.lists(st.integers(1, 9), min_size=2, max_size=4))
    k, s = sum(counts), draw(st.floats(0, 1))
    rho = np.array(counts) / k
    alpha = np.full(len(counts), 1 / k)
    alpha[0] = (1 + s * (1 / rho[0] - 1)) / k
    alpha[1:] *= (1 - rho[0] * k * alpha[0]) / (1 - rho[0])
    sigma = [draw(st.floats(0.05, 3)) for _ in counts]
    return Field(k, rho.tolist(), alpha.clip(0).tolist(), sigma, own=0)


@given(fields(), st.floats(0, 1))
def test_the_probability_lies_between_the_bounds(field: Field, below: float) -> None:
    delta = below * field.mean[0]
    exact = field.score().above(delta)
    lower, upper = bounds(
        field.k, field.rho[0], field.alpha[0], field.sigma[0], max(field.sigma[1:]), delta
    )
    assert lower - 1e-9 <= exact <= upper + 1e-9


@given(
    k=st.integers(1, 200),
    rho=st.floats(0.01, 0.99),
    at=st.floats(0, 1),
    sigma=st.floats(0.1, 3),
    other=st.floats(0.1, 3),
    below=st.floats(0, 1),
    grow=st.sampled_from(["k", "rho", "s", "sigma", "sigma_other"]),
)
def test_the_bounds_grow_with_k_rho_and_s_and_fall_with_sigma(
    k: int, rho: float, at: float, sigma: float, other: float, below: float, grow: str
) -> None:
    s = 1 + at * (1 / rho - 1)
    here = {"k": k, "rho": rho, "s": s, "sigma": sigma, "sigma_other": other}
    delta = below * rho * s
    there = {**here, grow: here[grow] * 1.05}
    assume(there["s"] * there["rho"] <= 1)
    first = np.array(sweep(**here, delta=delta))
    second = np.array(sweep(**there, delta=delta))
    sign = -1 if grow.startswith("sigma") else 1
    assert (sign * (second - first) >= -1e-9).all()


def test_monotonicity_needs_a_threshold_of_at_least_zero() -> None:
    narrow, wide = (bounds(k, 0.5, 1 / k, 1.0, 1.0, delta=-1.0)[1] for k in (10, 11))
    assert wide > narrow  # in k it happens to hold along s = 1
    low, high = (bounds(4, 0.2, s / 4, 1.0, 1.0, delta=-1.0)[1] for s in (1.0, 4.0))
    assert high < low  # but more weight on the own class lowers the bound
    with pytest.raises(UserError, match="delta of at least 0"):
        sweep(4, 0.2, 1.0, 1.0, 1.0, delta=-1.0)


def test_one_heavy_key_breaks_the_printed_lower_bound_but_not_the_upper() -> None:
    weights, classes = [0.71, *[0.01] * 4, *[0.05] * 5], [0] * 5 + [1] * 5
    sigma, delta = [0.385, 0.0], 0.5
    exact = unequal(weights, classes, sigma, own=0).above(delta)
    lower, upper = bounds(10, 0.5, 0.15, *sigma, delta)
    assert exact == pytest.approx(0.820, abs=1e-3)
    assert lower == pytest.approx(0.973, abs=1e-3)
    assert exact < lower <= upper


@pytest.mark.parametrize(
    "outside",
    [
        {"alpha": 0.05},  # under 1/k
        {"alpha": 0.25},  # over 1/(k rho)
        {"delta": 0.8},  # over the mean: not well trained here
        {"rho": 0.0},
        {"k": 0},
    ],
)
def test_outside_the_domain_is_refused(outside: dict[str, float]) -> None:
    inside = {"k": 10, "rho": 0.5, "alpha": 0.15, "delta": 0.5}
    assert in_domain(**inside)
    assert not in_domain(**{**inside, **outside})
    with pytest.raises(UserError, match=r"^Outside the theorem's domain .* k=\d+, rho="):
        bounds(**{**inside, **outside}, sigma=1.0, sigma_other=1.0)


def test_arrays_are_taken_and_the_first_value_outside_is_named() -> None:
    k = np.array([4.0, 9.0])
    lower, upper = bounds(k, 0.5, 1 / k, 1.0, 1.0, 0.1)
    assert lower.shape == (2,)
    assert (lower < upper).all()
    with pytest.raises(UserError, match=r"k=9, rho=0\.05"):
        bounds(k, np.array([0.5, 0.05]), 1 / k, 1.0, 1.0, 0.1)
