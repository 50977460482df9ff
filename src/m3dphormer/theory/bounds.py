"""Theorem 3.1's bounds on the chance to be classified right, their domain, and Proposition 1.

k, ρ_c and α_c do not move freely: the weights of u's own class sum to k ρ_c α_c <= 1. So what is
swept is s = k α_c in [1, 1/ρ_c], from uniform attention to attention on the own class alone.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from m3dphormer.errors import UserError
from m3dphormer.theory.theorem import TOLERANCE

Numbers = float | np.ndarray


def in_domain(k: Numbers, rho: Numbers, alpha: Numbers, delta: Numbers) -> np.ndarray:
    """Where the bounds hold: 1/k <= α_c <= 1/(k ρ_c) and δ_c <= k ρ_c α_c."""
    k, rho, alpha, delta = (np.asarray(v, float) for v in (k, rho, alpha, delta))
    share = k * rho * alpha
    return np.asarray(
        (k >= 1)
        & (rho > 0)
        & (rho <= 1)
        & (k * alpha >= 1 - TOLERANCE)
        & (share <= 1 + TOLERANCE)
        & (delta <= share + TOLERANCE)
    )


def bounds(
    k: Numbers,
    rho: Numbers,
    alpha: Numbers,
    sigma: Numbers,
    sigma_other: Numbers,
    delta: Numbers,
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bound on P(ẑ_u · μ_c >= δ_c), for numbers or arrays of one shape.

    They hold for weights that are equal inside each class; with unequal ones the upper bound
    survives, the lower can fail (``unequal`` gives the exact law).

    Args:
        k: Number of keys.
        rho: Share of u's own class among them.
        alpha: Weight of one key of the own class.
        sigma: Standard deviation of the own class.
        sigma_other: The largest standard deviation of the other classes.
        delta: The decision threshold.
    """
    inside = in_domain(k, rho, alpha, delta)
    if not inside.all():
        at = np.flatnonzero(~np.atleast_1d(inside))[0]
        said = {"k": k, "rho": rho, "alpha": alpha, "delta": delta}
        seen = {name: np.broadcast_to(v, inside.shape).flat[at] for name, v in said.items()}
        raise UserError(
            "Outside the theorem's domain 1/k <= alpha <= 1/(k rho), delta <= k rho alpha: "
            + ", ".join(f"{name}={value:g}" for name, value in seen.items())
            + "."
        )
    k, rho, alpha = (np.asarray(v, float) for v in (k, rho, alpha))
    mean, own = k * rho * alpha, k * rho * np.square(alpha * np.asarray(sigma))
    rest = (1 - rho) / k * np.square(sigma_other)
    return _above(mean, own + rest, delta), _above(mean, own, delta)


def sweep(
    k: Numbers,
    rho: Numbers,
    s: Numbers,
    sigma: Numbers,
    sigma_other: Numbers,
    delta: Numbers,
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds at α_c = s/k, for s in [1, 1/ρ_c].

    Proposition 1: both grow with k, ρ_c and s (δ_c >= 0 is needed) and fall with σ.
    """
    if np.any(np.asarray(delta) < 0):
        raise UserError("The bounds are monotone only for delta of at least 0.")
    return bounds(k, rho, np.asarray(s) / np.asarray(k, float), sigma, sigma_other, delta)


def _above(mean: np.ndarray, variance: np.ndarray, delta: Numbers) -> np.ndarray:
    """P(score >= δ) where the mean is not under δ; 1 where the score does not vary."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (mean - np.asarray(delta)) / np.sqrt(variance)
    return np.asarray(norm.cdf(np.where(variance > 0, z, np.inf)))
