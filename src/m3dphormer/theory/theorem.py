"""Theorem 3.1: how the attention-updated representation of a node is distributed.

A node of class i has a representation z ~ N(μ_i, σ_i² I), with orthonormal prototypes μ. Node u of
class c is right where ẑ_u · μ_c >= δ_c. Attention moves the mean of that score and its variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from m3dphormer.errors import UserError

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Normal:
    """The law of the score ẑ_u · μ_c."""

    mean: float
    variance: float

    def above(self, threshold: float) -> float:
        """P(score >= threshold), a step where the variance is 0."""
        if self.variance == 0:
            return float(self.mean >= threshold)
        return float(norm.sf((threshold - self.mean) / math.sqrt(self.variance)))


@dataclass(frozen=True)
class Field:
    """What a node sees: k keys, by class, with one weight for all keys of a class.

    The theorem is exact where weights are equal inside a class and independent of z; for any
    other weights see ``unequal``.

    Args:
        k: Number of keys, at least 1.
        rho: [C] share of each class among them; sums to 1.
        alpha: [C] attention weight of one key of each class; Σ k ρ_i α_i = 1.
        sigma: [C] standard deviation of each class.
        own: The node's class c.
    """

    k: int
    rho: Sequence[float]
    alpha: Sequence[float]
    sigma: Sequence[float]
    own: int

    def __post_init__(self) -> None:
        rho, alpha, sigma = (np.asarray(v, float) for v in (self.rho, self.alpha, self.sigma))
        if not len(rho) == len(alpha) == len(sigma) or not 0 <= self.own < len(rho):
            raise UserError("A field needs one rho, alpha and sigma a class, and own among them.")
        if self.k < 1 or min(rho.min(), alpha.min(), sigma.min()) < 0:
            raise UserError("A field needs k of at least 1, and no negative rho, alpha or sigma.")
        if abs(rho.sum() - 1) > TOLERANCE:
            raise UserError(f"The shares rho must sum to 1. Got {rho.sum():g}.")
        weight = float((self.k * rho * alpha).sum())
        if abs(weight - 1) > TOLERANCE:
            raise UserError(
                f"Attention weights must sum to 1: sum of k rho alpha is {weight:g}; with "
                f"k={self.k} and these shares, choose alpha so that it is."
            )

    @property
    def mean(self) -> np.ndarray:
        """[C] coefficients of E ẑ_u = Σ k ρ_i α_i μ_i."""
        return np.asarray(self.k * np.asarray(self.rho) * np.asarray(self.alpha))

    @property
    def variance(self) -> float:
        """Σ k ρ_i α_i² σ_i², the same in every direction."""
        return float((self.mean * np.asarray(self.alpha) * np.square(self.sigma)).sum())

    def score(self) -> Normal:
        """The law of ẑ_u · μ_c; its ``above(delta)`` is the chance to be classified right."""
        return Normal(float(self.mean[self.own]), self.variance)


def unequal(
    weights: Sequence[float], classes: Sequence[int], sigma: Sequence[float], own: int
) -> Normal:
    """The exact law of the score for any weights independent of z: variance Σ_v a_v² σ_v².

    Args:
        weights: [k] attention weight of each key; sums to 1.
        classes: [k] class of each key.
        sigma: [C] standard deviation of each class.
        own: The node's class.
    """
    a, y = np.asarray(weights, float), np.asarray(classes)
    if a.shape != y.shape or a.min() < 0 or abs(a.sum() - 1) > TOLERANCE:
        raise UserError("Weights must be one a key, not negative, and sum to 1.")
    return Normal(float(a[y == own].sum()), float((a**2 * np.square(sigma)[y]).sum()))


def class_node(sigma: float, count: int) -> Normal:
    """g3's class node: N(μ_c, σ²/n_c I), the theorem with ρ_c = 1 and α = 1/n_c.

    Args:
        sigma: Standard deviation of the class.
        count: n_c, its number of training nodes.
    """
    return Field(count, [1.0], [1 / count], [sigma], own=0).score()
