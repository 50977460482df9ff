from __future__ import annotations

import os
import pickle
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks.unpickle import ALLOWED, CsrState, unpickle


def save(path: Path, value: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(value, protocol))
    return path


class Touch:
    """A pickle that makes a file when it is loaded without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_arrays_sparse_matrices_and_graphs_come_back(tmp_path: Path) -> None:
    dense = np.arange(12, dtype=np.float32).reshape(3, 4) * (np.arange(4) % 2)
    assert np.array_equal(unpickle(save(tmp_path / "a", dense)), dense)
    sparse = unpickle(save(tmp_path / "b", sp.csr_matrix(dense)))
    assert isinstance(sparse, CsrState)
    assert np.array_equal(sparse.dense(), dense)
    graph = defaultdict(list, {0: [1, 2], 1: [0]})
    assert unpickle(save(tmp_path / "c", graph)) == graph


def test_python_2_names_are_known(tmp_path: Path) -> None:
    path = tmp_path / "graph"
    path.write_bytes(b"ccollections\ndefaultdict\n(c__builtin__\nlist\ntR.")
    assert unpickle(path) == defaultdict(list)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("wrap", [lambda bad: bad, lambda bad: np.array([bad], object)])
def test_a_malicious_pickle_is_refused_and_does_not_run(
    tmp_path: Path, protocol: int, wrap: Callable[[object], object]
) -> None:
    trap = tmp_path / "trap"
    path = save(tmp_path / "ind.cora.allx", wrap(Touch(trap)), protocol)
    with pytest.raises(UserError, match=r"ind\.cora\.allx wants to import \w+\.") as caught:
        unpickle(path)
    assert "\n" not in str(caught.value)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("__builtin__", "getattr"),
        ("numpy", "load"),
        ("numpy", "ndarray.tofile"),
        ("numpy.core.multiarray", "scalar"),
        ("scipy.sparse.csr", "np"),
        ("collections", "defaultdict.__class__"),
    ],
)
def test_only_the_exact_names_are_imported(tmp_path: Path, module: str, name: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(f"c{module}\n{name}\n.".encode())
    with pytest.raises(UserError, match=re.escape(f"wants to import {module}.{name},")):
        unpickle(path)


def test_the_allowlist_holds_types_and_one_array_constructor() -> None:
    callables = {value for value in ALLOWED.values() if not isinstance(value, type)}
    assert {value.__name__ for value in callables} == {"_reconstruct"}
    types = {value for value in ALLOWED.values() if isinstance(value, type)}
    assert types == {list, defaultdict, np.dtype, np.ndarray, CsrState}
