"""What can be told of a node from the edges alone: log-degree and Laplacian eigenvectors."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import eigsh

from m3dphormer.errors import notice

EIGENVECTORS = 16
DENSE_BELOW = 500  # ARPACK is unreliable on tiny graphs; LAPACK is instant there


def structural_features(name: str, edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
    """Encode each node by log(1 + degree), standardised, and up to 16 Laplacian eigenvectors.

    Args:
        edge_index: [2, E] undirected edges without self-loops.

    Returns:
        [N, 1 + k] float32. Eigenvector signs are fixed so that the entries sum to at least 0.
    """
    notice(f"{name}: no features; degree and Laplacian encodings stand in for them.")
    degree = torch.bincount(edge_index[0], minlength=num_nodes).double().numpy()
    log_degree = np.log1p(degree)
    spread = log_degree.std() or 1.0
    columns = [(log_degree - log_degree.mean())[:, None] / spread]
    if num_nodes > 2 and edge_index.numel():
        columns.append(_eigenvectors(edge_index, degree, EIGENVECTORS) * np.sqrt(num_nodes))
    return torch.from_numpy(np.concatenate(columns, axis=1)).float()


def laplacian_encoding(edge_index: torch.Tensor, num_nodes: int, count: int) -> torch.Tensor:
    """The first ``count`` non-trivial Laplacian eigenvectors, of unit length.

    Args:
        edge_index: [2, E] undirected edges without self-loops.

    Returns:
        [N, count] float32; zeros where the graph is too small to have so many.
    """
    found = torch.zeros(num_nodes, count)
    if num_nodes > 2 and edge_index.numel():
        degree = torch.bincount(edge_index[0], minlength=num_nodes).double().numpy()
        vectors = _eigenvectors(edge_index, degree, count)
        found[:, : vectors.shape[1]] = torch.from_numpy(vectors)
    return found


def _eigenvectors(edge_index: torch.Tensor, degree: np.ndarray, most: int) -> np.ndarray:
    """The smallest non-trivial eigenvectors of I - D^-1/2 A D^-1/2, at most so many."""
    n = len(degree)
    inverse_root = np.where(degree > 0, np.maximum(degree, 1) ** -0.5, 0.0)
    rows, columns = edge_index.numpy()
    weights = inverse_root[rows] * inverse_root[columns]
    adjacency = sp.csr_matrix((weights, (rows, columns)), shape=(n, n))
    count = min(most + 1, n - 1)
    if n < DENSE_BELOW:
        _, vectors = np.linalg.eigh(np.eye(n) - adjacency.toarray())
        vectors = vectors[:, 1:count]
    else:
        start = np.random.RandomState(0).uniform(-1, 1, n)
        values, vectors = eigsh(adjacency, k=count, which="LA", v0=start, tol=1e-4)
        vectors = vectors[:, np.argsort(-values)[1:]]
    signs = np.where(vectors.sum(axis=0) < 0, -1.0, 1.0)
    return np.asarray(vectors * signs)
