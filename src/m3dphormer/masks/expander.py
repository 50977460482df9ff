"""An expander: few edges, and yet every node is near every other (Exphormer's global level)."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected

SEED = 0
TRIES = 100
WHOLE_UP_TO = 10  # nodes among which everyone is simply everyone's neighbour
DENSE_BELOW = 500  # ARPACK is unreliable on tiny graphs; LAPACK is instant there
SLACK = 0.1


def expander(nodes: int, degree: int) -> Tensor:
    """``degree`` random permutations, each an edge from every node; the same every time.

    Drawn anew until the spectral gap is nearly the best that a 2·degree-regular graph can have.

    Returns:
        [2, m] undirected edges without self-loops, sorted.
    """
    if nodes <= WHOLE_UP_TO:
        return (1 - torch.eye(nodes)).nonzero().T
    rng = np.random.RandomState(SEED)
    senders = np.tile(np.arange(nodes), degree)
    best, best_gap = senders, -math.inf
    for _ in range(TRIES):
        receivers = np.concatenate([rng.permutation(nodes) for _ in range(degree)])
        gap = 2 * degree - _second_eigenvalue(senders, receivers, nodes)
        if gap > best_gap:
            best, best_gap = receivers, gap
        if gap >= 2 * degree - 2 * math.sqrt(2 * degree - 1) - SLACK:
            break
    edges = remove_self_loops(torch.from_numpy(np.stack([senders, best])))[0]
    undirected: Tensor = to_undirected(edges, num_nodes=nodes)
    return undirected


def _second_eigenvalue(senders: np.ndarray, receivers: np.ndarray, nodes: int) -> float:
    """Of the adjacency, in which an edge that was drawn twice counts twice."""
    ones = np.ones(len(senders))
    half = sp.csr_matrix((ones, (senders, receivers)), shape=(nodes, nodes))
    adjacency = half + half.T
    if nodes < DENSE_BELOW:
        return float(np.linalg.eigvalsh(adjacency.toarray())[-2])
    start = np.random.RandomState(SEED).uniform(-1, 1, nodes)
    values = eigsh(adjacency, k=2, which="LA", v0=start, tol=1e-3, return_eigenvectors=False)
    return float(values.min())
