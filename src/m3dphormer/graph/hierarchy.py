"""``hierarchy``: a generated graph that needs all three levels, like the paper's Figure 1.

It is made of communities of 32 nodes with few edges between them, in two kinds.

- *Mixed* communities are four cliques of eight, each of one class: neighbours agree, the
  community does not. Their nodes are of level ``local``.
- *Coherent* communities have a majority class. Its 20 nodes (level ``cluster``) are linked only
  to 12 nodes of the other classes (level ``global``): neighbours mislead both, the community's
  majority is right for the first and wrong for the second.

Nodes of the first two levels have noisy features that become clear only when averaged over a
set of their class; nodes of level ``global`` have clear features, shared with nodes of their
class anywhere in the graph.
"""

from __future__ import annotations

import numpy as np
import torch

from m3dphormer.errors import UserError
from m3dphormer.graph.raw import RawGraph

LEVELS = ("local", "cluster", "global")
COMMUNITY, CLIQUE, MAJORITY, MINORITY_SEEN = 32, 8, 20, 6
CROSS_LINKS = 0.1  # share of nodes with an edge to anywhere
CLEAR_SIGNAL, CLEAR_NOISE = 3.0, 0.3


def hierarchy(nodes: int = 1280, classes: int = 4, noise: float = 1.0, seed: int = 0) -> RawGraph:
    """Generate the graph; the Data gets ``level`` (0 local, 1 cluster, 2 global) and ``community``.

    Args:
        nodes: About how many nodes (rounded down to whole communities of 32).
        classes: Number of classes, at least 2.
        noise: Standard deviation of the features of local and cluster nodes, whose class means
            are orthonormal.
        seed: Chooses the edges, the classes and the noise.
    """
    count = nodes // COMMUNITY
    if count < 6:
        raise UserError(f"The 'nodes' parameter must be at least {6 * COMMUNITY}. Got {nodes}.")
    if classes < 2:
        raise UserError(f"The 'classes' parameter must be at least 2. Got {classes}.")
    if noise < 0:
        raise UserError(f"The 'noise' parameter must be at least 0. Got {noise}.")
    rng = np.random.RandomState(seed)
    y, level, edges = [], [], []
    for community in range(count):
        third, place = divmod(community, 3)
        if place == 0:
            labels, levels, links = _mixed(rng, third, classes)
        else:
            labels, levels, links = _coherent(rng, 2 * third + place, classes)
        y.append(labels)
        level.append(levels)
        edges.append(links + community * COMMUNITY)
    labels, levels = np.concatenate(y), np.concatenate(level)
    size = len(labels)
    far = np.stack([np.flatnonzero(rng.random_sample(size) < CROSS_LINKS)] * 2)
    far[1] = rng.randint(size, size=far.shape[1])
    order = rng.permutation(size)  # so that nothing can be read off the node order
    position = np.argsort(order)
    return RawGraph(
        name="hierarchy",
        edges=position[np.concatenate([*edges, far], axis=1)],
        x=_features(rng, labels, levels, classes, noise)[order],
        y=labels[order],
        label_names=[f"class {c}" for c in range(classes)],
        source=f"generated (nodes={nodes}, classes={classes}, noise={noise:g}, seed={seed})",
        extra={
            "level": torch.from_numpy(levels[order]),
            "community": torch.from_numpy(order // COMMUNITY),
        },
    )


def _mixed(
    rng: np.random.RandomState, turn: int, classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cliques of one class each; every node has one link to another clique of the community."""
    cliques = np.arange(COMMUNITY) // CLIQUE
    labels = (cliques + turn) % classes
    u, v = np.triu_indices(COMMUNITY, k=1)
    inside = cliques[u] == cliques[v]
    source = np.arange(COMMUNITY)
    target = (source + CLIQUE * rng.randint(1, COMMUNITY // CLIQUE, COMMUNITY)) % COMMUNITY
    links = np.concatenate([np.stack([u, v])[:, inside], np.stack([source, target])], axis=1)
    return labels, np.zeros(COMMUNITY, np.int64), links


def _coherent(
    rng: np.random.RandomState, turn: int, classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A majority linked only to the minority, whose classes are all the others in turn."""
    major = turn % classes
    minority = np.arange(COMMUNITY - MAJORITY)
    labels = np.concatenate(
        [np.full(MAJORITY, major), (major + 1 + minority % (classes - 1)) % classes]
    )
    levels = np.repeat([1, 2], [MAJORITY, COMMUNITY - MAJORITY])
    seen = np.concatenate(
        [
            np.stack([np.full(6, u), MAJORITY + rng.permutation(minority)[:6]])
            for u in range(MAJORITY)
        ],
        axis=1,
    )
    return labels, levels, seen


def _features(
    rng: np.random.RandomState, y: np.ndarray, level: np.ndarray, classes: int, noise: float
) -> np.ndarray:
    """Class means on the first axes for local and cluster nodes, on the next for global ones."""
    width = max(32, 2 * classes)
    clear = level == 2
    mean = np.where(clear, CLEAR_SIGNAL, 1.0)[:, None] * np.eye(width)[y + classes * clear]
    spread = noise * np.where(clear, CLEAR_NOISE, 1.0)[:, None]
    return np.asarray(mean + spread * rng.standard_normal((len(y), width)))
