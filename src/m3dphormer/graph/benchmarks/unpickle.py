"""Unpickling that builds arrays and nothing else: what the Planetoid files need, by exact name."""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks.parsed import checked_csr


class CsrState:
    """Takes the place of ``csr_matrix`` while unpickling, so that its indices can be checked."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    _shape: tuple[int, int]

    def dense(self) -> np.ndarray:
        """The matrix as [rows, columns]; indices out of bounds are a ``ValueError``."""
        matrix = checked_csr(self.data, self.indices, self.indptr, self._shape)
        return np.asarray(matrix.toarray())


# How NumPy rebuilds an array; the module that holds it has another name in every major version.
_reconstruct = np.empty(0).__reduce__()[0]

ALLOWED: dict[tuple[str, str], Any] = {
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("collections", "defaultdict"): defaultdict,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): CsrState,
    ("scipy.sparse._csr", "csr_matrix"): CsrState,
}


def unpickle(path: Path) -> Any:
    """Read a pickle of arrays, sparse matrices, dicts and lists, from Python 2 or 3.

    Raises:
        UserError: The file wants to import anything that is not in ``ALLOWED``.
    """
    with path.open("rb") as file:
        return _ArraysOnly(file, path).load()


class _ArraysOnly(pickle.Unpickler):
    def __init__(self, file: Any, path: Path) -> None:
        super().__init__(file, encoding="latin1")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise UserError(
                f"{self._path} wants to import {module}.{name}, which a file of arrays never "
                "needs; do not trust it, and replace it by one from its public home."
            ) from None
