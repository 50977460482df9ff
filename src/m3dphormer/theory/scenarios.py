"""The paper's five scenarios (section 3.2), node by node: which level should be taken where.

Levels are compared by the smoothed label consistency (own + 1/|Y|) / (labelled + 1): the share of
the own class with one key more that is of every class alike. It pulls a share of few keys towards
chance, so that it is large only where receptive field and consistency are, as the principle wants.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from m3dphormer.masks.mask import LEVELS
from m3dphormer.masks.statistics import Reach

STANDS_FOR = {"local": "l2", "cluster": "c3", "global": "g1"}  # as in the paper's section 3.3
STRONG = 0.5  # consistency from which local homophily is "strong": most neighbours agree
WELL_DEFINED = 0.9  # chance of a node's own representation from which a class is "well defined"
SCENARIOS = {
    "local": "1. most neighbours agree: local",
    "cluster": "2. they do not, the cluster agrees more: cluster",
    "global": "3. neighbours and cluster below chance: global",
    "minority": "4. another class leads its cluster: c1 would mislead it",
    "clear": "5. its class is well defined: any level",
}


def smoothed(reached: Reach, classes: int) -> Tensor:
    """Smoothed label consistency, [N]; 1/|Y| for a node without a labelled key."""
    return (reached.own + 1 / classes).double() / (reached.labelled + 1)


def name_levels(consistency: Mapping[str, Tensor]) -> Tensor:
    """The number in ``LEVELS`` of the level that each node should take, [N].

    Local where local homophily is strong (scenario 1), else the most consistent level; ties go
    to the narrower.

    Args:
        consistency: Smoothed label consistency by level, each [N].
    """
    best = torch.stack([consistency[level] for level in LEVELS]).argmax(dim=0)
    return best.where(consistency["local"] < STRONG, LEVELS.index("local"))


def scenario_shares(
    consistency: Mapping[str, Tensor],
    y: Tensor,
    cluster: Tensor,
    classes: int,
    alone: np.ndarray | None,
) -> dict[str, float | None]:
    """Share of the nodes of known class that are in each scenario; they overlap.

    Args:
        consistency: Smoothed label consistency by level, each [N].
        y: [N] known labels, -1 for none.
        cluster: [N] cluster of each node.
        classes: Number of classes.
        alone: [C] chance of each class without any neighbour (``Spread.alone``); None: unknown.
    """
    known = y >= 0
    local, near, far = (consistency[level][known] for level in LEVELS)
    chance = 1 / classes
    shares = {
        "local": local >= STRONG,
        "cluster": (local < STRONG) & (near > local) & (near >= far),
        "global": (local < chance) & (near < chance),
        "minority": _minority(y, cluster, classes)[known],
    }
    found: dict[str, float | None] = {
        name: float(where.double().mean()) for name, where in shares.items()
    }
    found["clear"] = None
    if alone is not None:
        found["clear"] = float((alone[y[known].numpy()] >= WELL_DEFINED).mean())
    return found


def _minority(y: Tensor, cluster: Tensor, classes: int) -> Tensor:
    """Whether another class has more known labels in a node's cluster than its own, [N]."""
    known = y >= 0
    place = cluster[known] * classes + y[known]
    table = torch.bincount(place, minlength=(int(cluster.max()) + 1) * classes).view(-1, classes)
    own = table[cluster, y.clamp(min=0)]
    return known & (own < table.amax(dim=1)[cluster])
