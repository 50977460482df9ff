"""One mask in the audit: its size, what its nodes reach, and what the theorem promises them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from m3dphormer.masks import Mask
from m3dphormer.masks.statistics import Reach
from m3dphormer.theory.bounds import bounds, in_domain
from m3dphormer.theory.estimate import Spread

BANDS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of node homophily
Quartiles = list[float]


@dataclass(frozen=True)
class MaskAudit:
    """One mask on one graph; None where there is nothing to count, or no features.

    Args:
        receptive_field: Quartiles over all nodes.
        label_consistency: Quartiles over the *counted* nodes: of known class, with a labelled key.
        unlabelled: Share of the nodes of known class that have no labelled key.
        below_chance: Share of the counted nodes whose consistency is under 1/|Y|.
        lower, upper: Mean bounds of Theorem 3.1 at uniform attention, over the nodes in its domain.
        in_domain: Share of the counted nodes that are in it.
        by_homophily: Both quartiles again, for nodes of similar homophily.
        vote: The vote of its training keys: ``tau``, and its ``accuracy`` on validation nodes.
    """

    nnz: int
    density: float
    receptive_field: Quartiles
    label_consistency: Quartiles | None
    unlabelled: float
    below_chance: float | None
    lower: float | None
    upper: float | None
    in_domain: float | None
    by_homophily: list[dict[str, Any]]
    vote: dict[str, float] | None


def audit_mask(
    mask: Mask,
    reached: Reach,
    y: Tensor,
    homophily: Tensor,
    spread: Spread | None,
    chance: float,
    vote: dict[str, float] | None,
) -> MaskAudit:
    """Count one mask.

    Args:
        reached: What its nodes reach.
        y: [N] known labels, -1 for none.
        homophily: [N] label consistency of each node's neighbours, NaN where unknown.
        spread: The theorem's constants; None without features.
        chance: 1/|Y|.
        vote: What is said about its vote.
    """
    share = own_share(reached, y)
    counted = ~share.isnan()
    known = int((y >= 0).sum())
    lower, upper, inside = None, None, None
    if spread is not None and bool(counted.any()):
        lower, upper, inside = _mean_bounds(
            reached.nodes[counted].numpy(), share[counted].numpy(), y[counted].numpy(), spread
        )
    return MaskAudit(
        nnz=mask.nnz,
        density=mask.density,
        receptive_field=_quartiles(reached.nodes.double()),
        label_consistency=_quartiles(share[counted]) if bool(counted.any()) else None,
        unlabelled=1 - int(counted.sum()) / known,
        below_chance=_mean(share[counted] < chance),
        lower=lower,
        upper=upper,
        in_domain=inside,
        by_homophily=_by_homophily(reached.nodes, share, homophily),
        vote=vote,
    )


def own_share(reached: Reach, y: Tensor) -> Tensor:
    """Label consistency, [N]; NaN for a node of unknown class or without a labelled key."""
    return (reached.own.double() / reached.labelled).where(y >= 0, torch.nan)


def _mean_bounds(
    k: np.ndarray, rho: np.ndarray, y: np.ndarray, spread: Spread
) -> tuple[float | None, float | None, float]:
    """Mean bounds at α = 1/k over the nodes in the domain, and their share."""
    delta, alpha = spread.delta[y], 1 / np.maximum(k, 1)
    inside = in_domain(k, rho, alpha, delta)
    if not inside.any():
        return None, None, 0.0
    k, rho, alpha, y, delta = (v[inside] for v in (k, rho, alpha, y, delta))
    lower, upper = bounds(k, rho, alpha, spread.sigma[y], spread.sigma_other[y], delta)
    return float(lower.mean()), float(upper.mean()), float(inside.mean())


def _by_homophily(k: Tensor, share: Tensor, homophily: Tensor) -> list[dict[str, Any]]:
    rows = []
    for low, high in pairwise(BANDS):
        last = high == BANDS[-1]
        within = (homophily >= low) & ((homophily <= high) if last else (homophily < high))
        among = within & ~share.isnan()
        rows.append(
            {
                "homophily": [low, high],
                "nodes": int(within.sum()),
                "receptive_field": _quartiles(k[within].double()) if bool(within.any()) else None,
                "label_consistency": _quartiles(share[among]) if bool(among.any()) else None,
            }
        )
    return rows


def _quartiles(values: Tensor) -> Quartiles:
    return [float(q) for q in np.quantile(values.numpy(), (0.25, 0.5, 0.75))]


def _mean(values: Tensor) -> float | None:
    return float(values.double().mean()) if len(values) else None
