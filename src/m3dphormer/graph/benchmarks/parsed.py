"""What every benchmark parser hands on, its hashes, and the one line for a file it cannot read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from m3dphormer.errors import UserError
from m3dphormer.graph.splits import GivenSplit


@dataclass(frozen=True)
class Parsed:
    """The arrays of a benchmark, the same whichever source its files came from.

    Args:
        edges: [2, m] int64, each undirected edge once, as ``canonical_edges`` orders them.
        x: [N, d] float32, or None where features were not asked for.
        y: [N] int64 class numbers.
        splits: The masks that came with the files, if any.
        label_names: One name a class; None: the files give only numbers.
    """

    edges: np.ndarray
    x: np.ndarray | None
    y: np.ndarray
    splits: GivenSplit | None = None
    label_names: Sequence[str] | None = None


def canonical_edges(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    """Each undirected edge once, smaller end first, without self-loops, sorted.

    Args:
        edges: [2, m] integers, in any order and direction, with duplicates.

    Returns:
        [2, m'] int64.
    """
    ends = np.sort(edges.astype(np.int64), axis=0)
    if ends.size and (ends.min() < 0 or ends.max() >= num_nodes):
        raise ValueError(f"edges name nodes outside 0 to {num_nodes - 1}")
    low, high = ends[:, ends[0] != ends[1]]
    keys = np.unique(low * num_nodes + high)
    return np.stack([keys // num_nodes, keys % num_nodes])


def checked_csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: Sequence[int] | np.ndarray
) -> sp.csr_matrix:
    """A CSR matrix from its parts; indices out of bounds are a ``ValueError``."""
    matrix = sp.csr_matrix((data, indices, indptr), shape=tuple(shape))
    matrix.check_format(full_check=True)
    return matrix


def array_hash(array: np.ndarray) -> str:
    """sha256 of shape, type and content, the same on every machine."""
    little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    digest = hashlib.sha256(f"{little_endian.dtype.str}{little_endian.shape}".encode())
    digest.update(little_endian.data)
    return digest.hexdigest()


def split_hash(splits: GivenSplit) -> str:
    """``array_hash`` of the train, validation and test masks, stacked: [3, N] or [3, N, S]."""
    return array_hash(np.stack([splits.train, splits.val, splits.test]))


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Tell in one line whatever is wrong with a file that is read inside."""
    try:
        yield
    except UserError:
        raise
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except Exception as error:  # a damaged file can fail in any way its decoder can
        raise UserError(
            f"{path} is truncated or not {kind}; replace it, "
            "or delete it to have it downloaded again."
        ) from error
