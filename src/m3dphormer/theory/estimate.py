"""The theorem's σ and δ, estimated from features and known labels.

The theorem wants orthonormal prototypes. Features are mapped linearly so that class means become
the unit vectors; what is left around them is the noise σ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor


@dataclass(frozen=True)
class Spread:
    """The theorem's constants by class; NaN for a class without a known label.

    Args:
        sigma: [C] root mean square distance from the class's prototype, in one direction.
        delta: [C] threshold that errs as often on the class as on the others.
    """

    sigma: np.ndarray
    delta: np.ndarray

    @property
    def sigma_other(self) -> np.ndarray:
        """[C] the largest σ among the other classes."""
        others = np.where(np.eye(len(self.sigma), dtype=bool), np.nan, self.sigma)
        return np.asarray(np.fmax.reduce(others, axis=1))

    @property
    def alone(self) -> np.ndarray:
        """[C] chance that a node of the class is right by its own representation, unaveraged."""
        return np.asarray(norm.cdf((1 - self.delta) / np.maximum(self.sigma, 1e-12)))


def estimate_spread(x: Tensor, y: Tensor, classes: int) -> Spread:
    """σ and δ of every class.

    Between a class (mean 1, σ_c) and the rest (mean 0, root mean square σ) in the direction of
    μ_c, the threshold of equal errors is δ_c = σ_rest / (σ_c + σ_rest).

    Args:
        x: [N, d] features.
        y: [N] labels that are known, -1 for none.
        classes: Number of classes.
    """
    known = (y >= 0).nonzero().squeeze(1)
    label, features = y[known], x[known].double()
    size = torch.bincount(label, minlength=classes)
    there = (size > 0).nonzero().squeeze(1)
    means = features.new_zeros(classes, x.shape[1]).index_add(0, label, features)
    means = means[there] / size[there].unsqueeze(1)
    scores = features @ torch.linalg.pinv(means)  # [known, classes that are there]
    prototypes = (label.unsqueeze(1) == there).double()
    noise = (scores - prototypes).square().mean(dim=1)
    variance = noise.new_zeros(classes).index_add(0, label, noise) / size
    sigma = variance.sqrt().numpy()
    rest = np.array([_rms(np.delete(sigma, c)) for c in range(classes)])
    total = sigma + rest
    delta = np.where(total > 0, rest / np.where(total > 0, total, 1), 0.5)
    return Spread(sigma, np.where(np.isnan(total), np.nan, delta))


def _rms(sigma: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean(np.square(sigma)))) if (~np.isnan(sigma)).any() else np.nan
