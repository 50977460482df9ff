"""Advice in plain words: which levels complement each other on a graph, how many clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from m3dphormer.masks.mask import LEVELS

EXPERTS = {"local": "l2", "cluster": "c4", "global": "g3"}  # M3Dphormer's mask of each level
WORDS = {"local": "its neighbours", "cluster": "its cluster", "global": "the whole graph"}
WORTH = 0.05  # share of nodes that must need a level to make it worth its cost


class Means(NamedTuple):
    """Mean receptive field and label consistency of a mask."""

    receptive_field: float
    label_consistency: float


def advise(
    consistency: Mapping[str, Tensor],
    known: Tensor,
    shares: Mapping[str, float],
    clusters: Mapping[int, float],
    hops: Mapping[str, Means],
) -> list[str]:
    """Sentences for the user, the last of them settings to start from.

    Args:
        consistency: Smoothed label consistency by level, each [N].
        known: [N] nodes of known class.
        shares: Share of nodes that should take each level.
        clusters: Worth of every number of clusters that was tried.
        hops: The means of l1 and l2.
    """
    taken = [level for level in LEVELS if round(shares[level], 2) >= WORTH]  # as it is printed
    best = max(clusters, key=lambda count: clusters[count])
    lines = [
        "The level to take, by label consistency: "
        + ", ".join(f"{WORDS[level]} for {shares[level]:.0%} of the nodes" for level in LEVELS)
        + ".",
        _about_levels(complements({level: consistency[level][known] for level in LEVELS}))
        + _about_taken(shares, taken),
        _about_hops(hops["l1"], hops["l2"], "local" in taken),
    ]
    settings = "experts=" + ",".join(EXPERTS[level] for level in taken)
    if "cluster" in taken:
        if len(clusters) > 1:
            tried = ", ".join(map(str, sorted(clusters)))
            lines.append(f"{best} clusters complement the other levels best (of {tried}).")
        settings += f" --set clusters={best}"
    return [*lines, f"To start from: --set {settings}"]


def complements(consistency: Mapping[str, Tensor]) -> dict[str, float]:
    """What each level adds to those before it, in the order in which each adds most.

    A set of levels is worth the mean over the nodes of the best consistency among them.
    """
    left, gains = dict(consistency), {}
    best = torch.zeros_like(next(iter(left.values())))
    while left:
        worth = {level: float(torch.maximum(best, left[level]).mean()) for level in left}
        level = max(worth, key=lambda name: worth[name])
        gains[level] = worth[level] - float(best.mean())
        best = torch.maximum(best, left.pop(level))
    return gains


def _about_levels(gains: Mapping[str, float]) -> str:
    (first, alone), *more = gains.items()
    said = f"The {first} level alone gives a mean consistency of {alone:.2f}; beside it "
    return said + " and ".join(f"the {level} level adds {gain:.2f}" for level, gain in more) + ". "


def _about_taken(shares: Mapping[str, float], taken: Sequence[str]) -> str:
    """What the settings leave out, and why: a level may lead by its mean and be best for few."""
    if len(taken) == len(LEVELS):
        return f"Levels that complement each other here: {', '.join(taken)}."
    left = [f"{level} (for {shares[level]:.0%})" for level in LEVELS if level not in taken]
    return (
        f"The settings below take {', '.join(taken)} and leave out {', '.join(left)}: a level "
        f"counts where it is the one to take for {WORTH:.0%} of the nodes or more, and a node "
        "whose neighbours mostly agree takes them even if another level is more consistent."
    )


def _about_hops(wide: Means, narrow: Means, local: bool) -> str:
    """Whether l1 is worth its price; no more than the numbers where neighbours are not taken."""
    if narrow.receptive_field == 0:
        return "No node has a neighbour: l1 and l2 show a node nothing but itself."
    grown = wide.receptive_field / narrow.receptive_field
    said = (
        f"Two hops reach {grown:.0f} times as many nodes as one, at a consistency of "
        f"{wide.label_consistency:.2f} instead of {narrow.label_consistency:.2f}"
    )
    if not local:
        return f"{said}."
    if wide.label_consistency < narrow.label_consistency:
        return f"{said}: take l2, not l1."
    return f"{said}: here l1 is worth a try beside l2."
