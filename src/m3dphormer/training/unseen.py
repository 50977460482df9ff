"""Where the nodes of another graph belong: the old ones by id, the new ones by their neighbours."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from sklearn.metrics import pairwise_distances_argmin


def as_text(ids: Iterable[object]) -> np.ndarray:
    """Ids as they are stored and compared, [N]: 7 of a frame is "7" of a csv file."""
    return np.array([str(value) for value in ids])


def by_id(ids: np.ndarray, old_ids: np.ndarray, old: np.ndarray) -> np.ndarray:
    """What each node was in training, a cluster or a label, [N]; -1 for a new one."""
    place = pd.Index(old_ids).get_indexer(pd.Index(ids))
    return np.where(place >= 0, old[place], -1)


def place_new(
    cluster: np.ndarray, edge_index: np.ndarray, x: np.ndarray, centroids: np.ndarray
) -> np.ndarray:
    """Give every new node a cluster, [N]; the order of nodes does not matter.

    In rounds: each node that has none takes the most frequent one among its neighbours, the lowest
    where several are, and keeps it; until no such node has a neighbour with one. Those that are
    left take the cluster with the nearest centroid.

    Args:
        cluster: [N], -1 for a new node.
        edge_index: [2, E], both directions.
        x: [N, F] raw features.
        centroids: [P, F] mean raw features of the clusters.
    """
    cluster = cluster.copy()
    source, target = edge_index
    while (asks := (cluster[source] < 0) & (cluster[target] >= 0)).any():
        votes = pd.DataFrame({"node": source[asks], "cluster": cluster[target[asks]]})
        counted = votes.value_counts().reset_index()
        ordered = counted.sort_values(["node", "count", "cluster"], ascending=[True, False, True])
        won = ordered.drop_duplicates("node")
        cluster[won["node"]] = won["cluster"]
    lost = cluster < 0
    if lost.any():
        cluster[lost] = pairwise_distances_argmin(x[lost], centroids)
    return cluster
