"""Bad input, told in one line each: the thing, then the way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from m3dphormer.errors import UserError, notice
from m3dphormer.graph.splits import Split


def check_graph(
    name: str,
    x: np.ndarray | None,
    edges: np.ndarray,
    y: np.ndarray,
    node_ids: Sequence[object] | None,
) -> None:
    """Refuse what cannot be a graph; one without edges only gets a notice."""
    n = len(y)
    if n == 0:
        raise UserError(f"{name}: the graph is empty; give at least two labelled nodes.")
    if node_ids is not None and len(node_ids) != n:
        raise UserError(f"{name}: {len(node_ids)} node ids for {n} nodes; give one id a node.")
    twice = _twice(map(str, () if node_ids is None else node_ids))
    if twice is not None:  # 7 of a frame is "7" of a csv file
        raise UserError(f"{name}: two ids read {twice!r} as text; ids must differ there too.")
    if x is not None:
        _check_features(name, x, n)
    _check_edges(name, edges, n)


def _check_features(name: str, x: np.ndarray, n: int) -> None:
    if x.ndim != 2 or x.shape[1] == 0:
        raise UserError(f"{name}: features must be a table of nodes x columns. Got {x.shape}.")
    if len(x) != n:
        raise UserError(f"{name}: {len(x)} feature rows for {n} labels; give one row a node.")
    if x.dtype.kind not in "biuf":
        raise UserError(f"{name}: features must be numbers. Got {x.dtype}.")
    with np.errstate(over="ignore"):
        finite = np.isfinite(x.astype(np.float32, copy=False))
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise UserError(
            f"{name}: {np.count_nonzero(~finite)} feature values are NaN or infinite, first at "
            f"node {row}, column {column}; fill or drop them."
        )


def _check_edges(name: str, edges: np.ndarray, n: int) -> None:
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise UserError(f"{name}: edges must have two rows, source and target. Got {edges.shape}.")
    if edges.size == 0:
        notice(f"{name}: the graph has no edges; only cluster and global attention see others.")
    elif edges.min() < 0 or edges.max() >= n:
        bad = edges[:, ((edges < 0) | (edges >= n)).any(axis=0)]
        raise UserError(
            f"{name}: {bad.shape[1]} edges name nodes that do not exist, first "
            f"{bad[0, 0]}-{bad[1, 0]} in a graph of {n} nodes (0 to {n - 1})."
        )


def check_labels(name: str, y: np.ndarray, label_names: Sequence[str]) -> None:
    """Refuse labels that nothing can be learned from, and names that two classes have."""
    twice = _twice(map(str, label_names))
    if twice is not None:
        raise UserError(f"{name}: two classes have the label name {twice!r}; names must differ.")
    classes = np.unique(y[y >= 0])
    if len(classes) == 0:
        raise UserError(f"{name}: no node has a label; label at least two classes.")
    if len(classes) == 1:
        raise UserError(
            f"{name}: all labels are {str(label_names[classes[0]])!r}; there must be two classes."
        )


def check_split(
    name: str, split: Split, y: np.ndarray, label_names: Sequence[str], *, given: bool
) -> None:
    """Parts disjoint, labelled and not empty; a given split must train on every class."""
    parts = {"train": split.train, "val": split.val, "test": split.test}
    for part, mask in parts.items():
        if mask.shape != y.shape:
            raise UserError(f"{name}: the {part} mask has shape {mask.shape}, not {y.shape}.")
        if (mask & (y < 0)).any():
            raise UserError(
                f"{name}: {np.count_nonzero(mask & (y < 0))} nodes of the {part} split have no "
                "label; label them or take them out of the split."
            )
        if not mask.any():
            raise UserError(
                f"{name}: the split has no {part} nodes; "
                + ("add some." if given else "label more nodes, or give a split of your own.")
            )
    overlap = (split.train & split.val) | (split.train & split.test) | (split.val & split.test)
    if overlap.any():
        raise UserError(
            f"{name}: {np.count_nonzero(overlap)} nodes are in more than one part of the split, "
            f"first node {np.flatnonzero(overlap)[0]}; keep each in one."
        )
    if given:
        missing = np.setdiff1d(np.unique(y[y >= 0]), y[split.train])
        if len(missing):
            raise UserError(
                f"{name}: class {str(label_names[missing[0]])!r} has no training node in the given "
                "split; move one there, or leave the split out for a stratified one."
            )


def _twice(texts: Iterable[str]) -> str | None:
    """The first text that is there more than once."""
    return next((text for text, count in Counter(texts).items() if count > 1), None)
