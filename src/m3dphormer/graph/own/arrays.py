"""The user's own graph as arrays: numpy, torch or lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph.own.labels import class_numbers, given_numbers
from m3dphormer.graph.raw import RawGraph, finish
from m3dphormer.graph.splits import GivenSplit, SplitRule, StratifiedSplit


def from_arrays(
    x: Any,
    edges: Any,
    y: Any,
    *,
    ids: Iterable[object] | None = None,
    train: Any = None,
    val: Any = None,
    test: Any = None,
    label_names: Sequence[object] | None = None,
    name: str = "arrays",
    split: int = 0,
) -> Data:
    """Make a graph out of arrays.

    Args:
        x: [N, d] numbers, dense or sparse; None for a graph without features.
        edges: [2, m] or [m, 2] node positions.
        y: [N] class numbers, with -1, NaN or None for an unlabelled node, or class names.
        ids: One id a node, of any hashable kind.
        train, val, test: Boolean masks [N], or [N, S] for S splits; all three or none.
        label_names: One name a class; without them the labels themselves are the names.
        name: What the graph is called.
        split: Which of the S splits, or which drawn one.
    """
    rows = _either_way(name, edges)
    raw = arrays_to_raw(name, "arrays in memory", x, rows, y, (train, val, test), label_names, ids)
    return finish(raw, split)


def arrays_to_raw(
    name: str,
    source: str,
    x: Any,
    edges: Any,
    y: Any,
    masks: Sequence[Any] = (None, None, None),
    label_names: Sequence[object] | None = None,
    ids: Iterable[object] | None = None,
) -> RawGraph:
    """Bring arrays to the types of a RawGraph; ``edges`` are [2, m]."""
    numbers, names = _labels(name, y, label_names)
    return RawGraph(
        name=name,
        edges=_positions(name, edges),
        x=None if x is None else _features(name, x),
        y=numbers,
        label_names=names,
        source=source,
        node_ids=None if ids is None else _distinct(name, ids),
        rule=_rule(name, masks, len(numbers)),
    )


def as_array(name: str, what: str, value: Any) -> np.ndarray:
    """Anything array-like as numpy."""
    if isinstance(value, torch.Tensor):
        value = value.detach().to_dense().cpu()
        value = value.float() if value.dtype == torch.bfloat16 else value
    elif sp.issparse(value):
        value = value.toarray()
    try:
        return np.asarray(value)
    except ValueError as error:
        sizes = [np.size(row) for row in value]
        odd = next((i for i, size in enumerate(sizes) if size != sizes[0]), 0)
        raise UserError(
            f"{name}: {what} of unequal length: row {odd} has {sizes[odd]} values, "
            f"row 0 has {sizes[0]}."
        ) from error


def _features(name: str, value: Any) -> np.ndarray | None:
    x = as_array(name, "features", value)
    if x.dtype == object:
        try:
            x = x.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise UserError(f"{name}: features must be numbers ({error}).") from error
    x = x[:, None] if x.ndim == 1 else x
    return None if x.ndim == 2 and x.shape[1] == 0 else x


def _either_way(name: str, edges: Any) -> np.ndarray:
    """[2, m] out of [2, m] or [m, 2]."""
    pairs = as_array(name, "edges", edges)
    if pairs.size == 0:
        return np.zeros((2, 0), dtype=np.int64)
    if pairs.ndim != 2 or 2 not in pairs.shape:
        raise UserError(
            f"The 'edges' parameter must be node positions of shape [2, m] or [m, 2]. "
            f"Got shape {list(pairs.shape)}."
        )
    if pairs.shape == (2, 2) and pairs[0, 1] != pairs[1, 0]:
        raise UserError(
            "The 'edges' parameter must tell rows from columns, which [2, 2] does not; "
            "repeat an edge to make it [2, 3] or [3, 2]."
        )
    return pairs if len(pairs) == 2 else pairs.T


def _positions(name: str, edges: Any) -> np.ndarray:
    """Whole numbers as int64."""
    array = as_array(name, "edges", edges)
    if array.size == 0:
        return np.zeros((2, 0), dtype=np.int64)
    whole = np.issubdtype(array.dtype, np.integer)
    if np.issubdtype(array.dtype, np.floating):
        whole = bool((np.isfinite(array) & (array == np.floor(array))).all())
    if not whole:
        raise UserError(
            f"{name}: edges must be node positions, whole numbers from 0. Got {array.dtype}."
        )
    return array.astype(np.int64)


def _labels(
    name: str, y: Any, label_names: Sequence[object] | None
) -> tuple[np.ndarray, list[str]]:
    if y is None:
        raise UserError(
            f"{name}: labels are None; give one a node, -1 where there is none, or predict on a "
            "PyG Data without y."
        )
    values = as_array(name, "labels", y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise UserError(
            f"{name}: labels must be one a node, of shape [N]; several labels a node are not "
            f"supported. Got shape {list(values.shape)}."
        )
    labels = pd.Series(values, dtype=object)
    labels[(labels == -1).to_numpy()] = None
    negative = [v for v in labels.unique() if isinstance(v, int | float | np.number) and v < 0]
    if negative:
        raise UserError(
            f"{name}: label {negative[0]} is negative; class numbers start at 0, "
            "and -1 is unlabelled."
        )
    if label_names is None:
        return class_numbers(name, labels)
    return given_numbers(name, labels, label_names), [str(label) for label in label_names]


def _distinct(name: str, ids: Iterable[object]) -> list[object]:
    listed = ids.tolist() if isinstance(ids, np.ndarray | torch.Tensor) else list(ids)
    index = pd.Index(pd.Series(listed, dtype=object), tupleize_cols=False)
    if index.has_duplicates:
        twice = listed[int(index.duplicated().argmax())]
        raise UserError(f"{name}: id {twice!r} is there twice; ids must differ.")
    return listed


def _rule(name: str, masks: Sequence[Any], num_nodes: int) -> SplitRule:
    """Masks are a given split; without any it is drawn."""
    given = dict(zip(("train", "val", "test"), masks, strict=True))
    missing = [part for part, mask in given.items() if mask is None]
    if len(missing) == len(given):
        return StratifiedSplit(0.6, 0.2)
    if missing:
        raise UserError(
            f"{name}: the split has no {missing[0]} mask; give train, val and test, or none."
        )
    arrays = [_mask(name, part, mask, num_nodes) for part, mask in given.items()]
    if len({array.shape for array in arrays}) > 1:
        shapes = ", ".join(str(list(array.shape)) for array in arrays)
        raise UserError(f"{name}: train, val and test masks differ in shape: {shapes}.")
    return GivenSplit(*arrays)


def _mask(name: str, part: str, value: Any, num_nodes: int) -> np.ndarray:
    mask = as_array(name, f"the {part} mask", value)
    if mask.ndim not in (1, 2) or len(mask) != num_nodes or 0 in mask.shape:
        raise UserError(
            f"{name}: the {part} mask must have shape [{num_nodes}] or [{num_nodes}, S]. "
            f"Got {list(mask.shape)}."
        )
    if mask.dtype != bool and not np.isin(mask, (0, 1)).all():
        raise UserError(f"{name}: the {part} mask must be True or False a node. Got {mask.dtype}.")
    return mask.astype(bool)
