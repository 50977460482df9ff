"""METIS: the graph cut into clusters, recursive, seeded, kept in the cache by content."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pymetis
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.index import index2ptr

from m3dphormer.errors import UserError
from m3dphormer.graph.cache import cache_dir, write_atomically
from m3dphormer.masks.adjacency import edges

SEED = 0


def assign(data: Data, clusters: int | str | Tensor) -> Tensor:
    """The cluster of each node, [N].

    Args:
        clusters: How many clusters METIS makes; the cluster of each node, [N]; or "auto": the
            partition ``data.cluster`` that comes with the graph, else about N/32 clusters.
    """
    n = int(data.num_nodes)
    if isinstance(clusters, str) and clusters == "auto" and "cluster" in data:
        clusters = data.cluster
    if isinstance(clusters, Tensor):
        return _checked(clusters.cpu().long(), n)
    if clusters == "auto":
        return partition(data, auto_clusters(n))
    if isinstance(clusters, bool) or not isinstance(clusters, int) or clusters < 1:
        raise UserError(
            f"The 'clusters' parameter must be an int of at least 1 or 'auto'. Got {clusters!r}."
        )
    return partition(data, clusters)


def auto_clusters(nodes: int) -> int:
    """About one cluster for 32 nodes, within [4, 2048] and never more than there are nodes."""
    return min(nodes, max(4, min(2048, round(nodes / 32))))


def partition(data: Data, parts: int) -> Tensor:
    """Cut the graph into ``parts`` clusters that share few edges; the same every time, [N]."""
    n = int(data.num_nodes)
    if parts > n:
        raise UserError(f"{parts} clusters are more than the graph's {n} nodes; take fewer.")
    if parts == 1:
        return torch.zeros(n, dtype=torch.long)
    if parts == n:
        return torch.arange(n)
    links = edges(data)
    content = hashlib.sha256(f"{n} {parts} {SEED}".encode() + links.numpy().tobytes()).hexdigest()
    path = cache_dir("partitions", f"{content[:32]}.npy")
    stored = _stored(path, n, parts)
    if stored is None:
        stored = _filled(cut(index2ptr(links[0], n), links[1], parts).numpy(), parts)
        _store(path, stored)
    return torch.from_numpy(stored.astype(np.int64))


def cut(starts: Tensor, neighbours: Tensor, parts: int) -> Tensor:
    """METIS's part of each node of a symmetric graph in CSR form, [N]; some parts may be empty."""
    # Recursive bisection: k-way leaves many clusters empty on small graphs with many parts.
    dtype = pymetis.zero_copy_dtype()
    adjacency = pymetis.CSRAdjacency(*(t.numpy().astype(dtype) for t in (starts, neighbours)))
    options = pymetis.Options(seed=SEED)
    _, member = pymetis.part_graph(parts, adjacency=adjacency, recursive=True, options=options)
    return torch.from_numpy(np.array(member, dtype=np.int32))


def _filled(member: np.ndarray, parts: int) -> np.ndarray:
    """Give each cluster that METIS left empty one node of the largest."""
    sizes = np.bincount(member, minlength=parts)
    for empty in np.flatnonzero(sizes == 0):
        largest = sizes.argmax()
        member[np.flatnonzero(member == largest)[-1]] = empty
        sizes[[largest, empty]] += [-1, 1]
    return member


def _stored(path: Path, n: int, parts: int) -> np.ndarray | None:
    try:
        member: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    sound = member.shape == (n,) and np.array_equal(np.unique(member), np.arange(parts))
    return member if sound else None


def _store(path: Path, member: np.ndarray) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, member)

    try:
        write_atomically(path, write)
    except OSError:
        return  # a cache that cannot be written costs time, not the run


def _checked(cluster: Tensor, n: int) -> Tensor:
    if cluster.shape != (n,):
        raise UserError(f"A cluster vector of shape {tuple(cluster.shape)} for {n} nodes.")
    if int(cluster.min()) < 0:
        raise UserError("A cluster vector with negative entries; number the clusters from 0.")
    sizes = torch.bincount(cluster)
    if not bool((sizes > 0).all()):
        gap = int((sizes == 0).nonzero()[0])
        raise UserError(f"A cluster vector with gaps: no node is in cluster {gap}.")
    return cluster
