"""Features in the user's own units, years beside dollars: each column to mean 0 and deviation 1.

Mean and deviation are those of the training graph, kept with the run, and the same for any graph
that is predicted on.
"""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from m3dphormer.errors import notice

LARGE = 20.0  # counts of pixels and words lie below it, ages and incomes above
FEATURES = ("auto", "raw", "standard")


def scaling_of(data: Data, features: str) -> np.ndarray | None:
    """Mean and deviation of each column, [2, F]; None: they stay as they are.

    Args:
        features: "standard", "raw", or "auto": standard where a number is larger than ``LARGE``.
    """
    if features == "raw":
        return None
    if features == "auto":
        largest = max(float(data.x.max()), -float(data.x.min()))  # no copy of a large table
        if largest <= LARGE:
            return None
        notice(
            f"{data.name}: features reach {largest:.3g}; each column is brought to mean 0 and "
            "deviation 1 (features=raw leaves them)."
        )
    x = data.x.cpu().numpy().astype(np.float64)
    deviation = x.std(axis=0)
    return np.stack([x.mean(axis=0), np.where(deviation > 0, deviation, 1.0)])


def scaled(data: Data, scaling: np.ndarray | None) -> Data:
    """The graph with its columns on that scale."""
    if scaling is None:
        return data
    mean, deviation = torch.from_numpy(scaling).to(data.x.device)
    known = data.clone()
    known.x = ((data.x.double() - mean) / deviation).to(data.x.dtype)
    return known
