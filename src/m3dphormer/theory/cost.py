"""When sparse attention is cheaper than dense: Proposition 2 (memory) and its appendix (time)."""

from __future__ import annotations

from m3dphormer.attention.dual import memory_threshold

__all__ = [
    "TIME_THRESHOLD",
    "dense_memory",
    "dense_time",
    "dense_transformer_bytes",
    "memory_threshold",
    "sparse_memory",
    "sparse_time",
]

TIME_THRESHOLD = 1 / 2  # of m / N^2: from 3Nd^2 + 4md < 3Nd^2 + 2N^2 d


def dense_memory(rows: int, heads: int) -> int:
    """Numbers that Algorithm 1 keeps: scores and weights, 2 H N²."""
    return 2 * heads * rows**2


def dense_transformer_bytes(rows: int, *, layers: int, heads: int) -> int:
    """Peak of training a dense masked transformer as PyTorch's own operators would compute it.

    The paper's introduction: two layers, two heads and one mask take 21 GB on PubMed. It does not
    say what it counts; what is counted here gives that number. Every layer keeps, a pair and head,
    the weights before and after dropout (float32) and what was dropped (a bool); the backward pass
    adds the gradients of weights and scores; the mask and its complement are a bool a pair.
    """
    kept, gradients, mask = 4 + 4 + 1, 4 + 4, 2
    return rows**2 * (heads * (layers * kept + gradients) + mask)


def sparse_memory(nnz: int, heads: int, head_width: int) -> int:
    """Numbers that Algorithm 2 keeps: 6 m H d_h."""
    return 6 * nnz * heads * head_width


def dense_time(rows: int, width: int) -> int:
    """Multiplications of Algorithm 1: 3 N d² + 2 N² d."""
    return 3 * rows * width**2 + 2 * rows**2 * width


def sparse_time(rows: int, nnz: int, width: int) -> int:
    """Multiplications of Algorithm 2: 3 N d² + 4 m d."""
    return 3 * rows * width**2 + 4 * nnz * width
