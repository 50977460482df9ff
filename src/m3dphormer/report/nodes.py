"""Nodes of a run: their gates by degree and homophily, and those it finds hardest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from torch_geometric.data import Data

from m3dphormer.report.run import Predictions

HARDEST = 15
BANDS = np.linspace(0, 1, 11)  # of homophily
DEGREES = (0, 1, 2, 3, 5, 9, 17, 33, 65, 129)  # where a bin of degrees starts


@dataclass(frozen=True)
class Bin:
    """Nodes that are alike, and the mean share of each expert among them."""

    label: str
    nodes: int
    shares: tuple[float, ...]


@dataclass(frozen=True)
class LayerGates:
    """Gates of one layer."""

    by_degree: tuple[Bin, ...]
    by_homophily: tuple[Bin, ...]


@dataclass(frozen=True)
class HardNode:
    """A test node whose true class got little probability."""

    id: str
    true: str
    predicted: str
    probability: float  # of the true class
    degree: int
    homophily: float | None
    gates: tuple[float, ...]  # of the last layer; none for a model without gates


def degrees(data: Data) -> np.ndarray:
    """Number of neighbours of each node, [N]."""
    return np.bincount(data.edge_index[0].numpy(), minlength=int(data.num_nodes))


def homophily(data: Data) -> np.ndarray:
    """Share of its own class among the labelled neighbours of each node, [N]; NaN: unknown."""
    y, nodes = data.y.numpy(), int(data.num_nodes)
    source, target = data.edge_index.numpy()
    known = (y[source] >= 0) & (y[target] >= 0)
    labelled = np.bincount(source[known], minlength=nodes)
    own = np.bincount(source[known & (y[source] == y[target])], minlength=nodes)
    return np.where(labelled > 0, own / np.maximum(labelled, 1), np.nan)


def layer_gates(gates: np.ndarray, degree: np.ndarray, homophilous: np.ndarray) -> LayerGates:
    """Mean gates of one layer, [N, experts], by degree and by homophily."""
    bounds = [*DEGREES, max(int(degree.max()), DEGREES[-1]) + 1]
    by_degree = [
        (_range(a, b, bounds[-1]), (degree >= a) & (degree < b)) for a, b in pairwise(bounds)
    ]
    by_homophily = [
        (
            f"{100 * a:.0f} to {100 * b:.0f} %",
            (homophilous >= a) & ((homophilous < b) | (b == BANDS[-1])),
        )
        for a, b in pairwise(BANDS)
    ]
    by_homophily.append(("unknown", np.isnan(homophilous)))
    return LayerGates(_bins(gates, by_degree), _bins(gates, by_homophily))


def hardest(
    predictions: Predictions,
    data: Data,
    test: np.ndarray,
    homophilous: np.ndarray,
    gates: np.ndarray | None,
) -> list[HardNode]:
    """The test nodes with the lowest probability of their true class, worst first.

    Args:
        test: [N] bool.
        homophilous: [N] from ``homophily``.
        gates: [N, experts] of the last layer.
    """
    nodes = np.flatnonzero(test)
    true = data.y.numpy()
    given = predictions.probabilities[nodes, true[nodes]]
    worst = nodes[np.argsort(given, kind="stable")[:HARDEST]]
    degree, names = degrees(data), data.label_names
    return [
        HardNode(
            id=predictions.ids[node],
            true=names[true[node]],
            predicted=names[predictions.label[node]],
            probability=float(predictions.probabilities[node, true[node]]),
            degree=int(degree[node]),
            homophily=None if np.isnan(homophilous[node]) else float(homophilous[node]),
            gates=() if gates is None else tuple(map(float, gates[node])),
        )
        for node in worst
    ]


def _range(low: int, high: int, end: int) -> str:
    """Whole numbers from low to high - 1 in words."""
    if high == end:
        return f"{low} or more"
    return str(low) if high == low + 1 else f"{low} to {high - 1}"


def _bins(gates: np.ndarray, groups: Sequence[tuple[str, np.ndarray]]) -> tuple[Bin, ...]:
    """Groups without a node are left out."""
    return tuple(
        Bin(label, int(within.sum()), tuple(map(float, gates[within].mean(axis=0))))
        for label, within in groups
        if within.any()
    )
