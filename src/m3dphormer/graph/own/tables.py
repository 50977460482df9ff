"""A table of nodes and a table of edges become a RawGraph; whatever is wrong is told by its row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import torch

from m3dphormer.errors import UserError, notice
from m3dphormer.graph.own.labels import class_numbers
from m3dphormer.graph.raw import RawGraph
from m3dphormer.graph.splits import GivenSplit, NoSplit, SplitRule, StratifiedSplit

PARTS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


@dataclass(frozen=True)
class Table:
    """A data frame and how an error line names its rows.

    Args:
        frame: Its index counts the rows as the user sees them.
        title: What an error line begins with, such as ``my.zip: nodes.csv``.
        unit: What a row is called: ``line`` in a text file.
    """

    frame: pd.DataFrame
    title: str
    unit: str = "row"

    def at(self, position: int) -> str:
        """``my.zip: nodes.csv line 7``."""
        return f"{self.title} {self.unit} {self.frame.index[position]}"


def table(frame: pd.DataFrame, title: str) -> Table:
    """Take a data frame made elsewhere: rows count from 0, categories become their values."""
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise UserError(f"{title}: column {repeated[0]!r} is there twice; rename one.")
    categories = frame.columns[[isinstance(t, pd.CategoricalDtype) for t in frame.dtypes]]
    plain = frame.reset_index(drop=True)
    return Table(plain.astype(dict.fromkeys(categories, object)), title)


def tables_to_raw(
    name: str, nodes: Table, edges: Table, source: str, labels: bool = True
) -> RawGraph:
    """Read ids, labels, split and features out of ``nodes``, and both ends out of ``edges``.

    Args:
        nodes: Columns ``id``, ``label``, optional ``split``, and features.
        edges: ``source`` and ``target`` (else the first two columns), naming node ids.
        labels: False: labels and split are not read.
    """
    columns = list(nodes.frame.columns)
    for needed in ("id", "label") if labels else ("id",):
        if needed not in columns:
            raise UserError(
                f"{nodes.title}: column {needed!r} is missing; needed are id, label, optional "
                f"split, and features. Found {_listed(columns)}."
            )
    if nodes.frame.empty:
        raise UserError(f"{nodes.title}: the graph is empty; give at least two labelled nodes.")
    ids = _ids(nodes)
    given = nodes.frame["label"] if labels else pd.Series(None, nodes.frame.index, dtype=object)
    y, label_names = class_numbers(nodes.title, given)
    x, feature_names = _features(nodes, [c for c in columns if c not in ("id", "label", "split")])
    return RawGraph(
        name=name,
        edges=_edges(edges, ids),
        x=x,
        feature_names=feature_names,
        y=y,
        label_names=label_names,
        source=source,
        node_ids=ids.tolist(),
        rule=_rule(nodes) if labels else NoSplit(),
        need_labels=labels,
    )


def _ids(nodes: Table) -> pd.Index:
    ids = nodes.frame["id"]
    missing = ids.isna().to_numpy()
    if missing.any():
        row = int(missing.argmax())
        raise UserError(f"{nodes.at(row)}: the id is missing; give every node one.")
    if ids.dtype == object and not all(isinstance(value, Hashable) for value in ids):
        raise UserError(f"{nodes.title}: ids must be hashable, such as numbers, text or tuples.")
    repeated = ids.duplicated().to_numpy()
    if repeated.any():
        row = int(repeated.argmax())
        first = nodes.frame.index[int((ids == ids.iloc[row]).to_numpy().argmax())]
        raise UserError(
            f"{nodes.at(row)}: id {_shown(ids.iloc[row])} is already in {nodes.unit} {first}; "
            "ids must differ."
        )
    index: pd.Index = pd.Index(ids, tupleize_cols=False)
    return index


def _rule(nodes: Table) -> SplitRule:
    """A split column gives the split; without one it is drawn."""
    if "split" not in nodes.frame:
        return StratifiedSplit(0.6, 0.2)
    values = nodes.frame["split"]
    given = (values.notna() & (values != "")).to_numpy()
    parts = values.map(PARTS).to_numpy(dtype=float)
    wrong = given & np.isnan(parts)
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(
            f"{nodes.at(row)}: split {_shown(values.iloc[row])} is not train, val or test "
            "(leave it empty for a node in none)."
        )
    return GivenSplit(parts == 0, parts == 1, parts == 2)


def _edges(edges: Table, ids: pd.Index) -> np.ndarray:
    """[2, m] positions of both ends among the node ids."""
    frame = edges.frame
    named = {"source", "target"} <= set(frame.columns)
    ends = ["source", "target"] if named else list(frame.columns[:2])
    if len(ends) < 2:
        raise UserError(
            f"{edges.title}: needed are two columns, source and target. "
            f"Found {_listed(frame.columns)}."
        )
    if edges.unit == "line" and not named and pd.Index(ends).isin(ids).all():
        raise UserError(f"{edges.title} line 1 is an edge; write a header there: source,target.")
    ignored = [column for column in frame.columns if column not in ends]
    if ignored:
        notice(f"{edges.title}: edges carry no weights here; ignored {_listed(ignored)}.")
    try:
        found = np.stack(
            [ids.get_indexer(pd.Index(frame[end], tupleize_cols=False)) for end in ends]
        )
    except TypeError as error:
        raise UserError(f"{edges.title}: ends must be node ids ({error}).") from error
    lost = (found < 0).any(axis=0)
    if lost.any():
        row = int(lost.argmax())
        _refuse_end(edges, row, frame[ends[int((found[:, row] < 0).argmax())]].iloc[row], ids)
    return found.astype(np.int64)


def _refuse_end(edges: Table, row: int, end: Any, ids: pd.Index) -> NoReturn:
    if pd.api.types.is_scalar(end) and pd.isna(end):
        raise UserError(f"{edges.at(row)}: an edge needs two ends, source and target.")
    end = end.item() if isinstance(end, np.generic) else end
    twins = [known for known in ids.tolist() if str(known) == str(end)]
    way_out = "add it to the nodes or drop the edge."
    if twins:
        way_out = (
            f"the nodes have {_shown(twins[0])} ({type(twins[0]).__name__}) where the edges have "
            f"{_shown(end)} ({type(end).__name__}): make both one type, e.g. astype(str)."
        )
    raise UserError(f"{edges.at(row)}: no node has the id {_shown(end)}; {way_out}")


def _features(
    nodes: Table, columns: Iterable[Hashable]
) -> tuple[np.ndarray | None, list[str] | None]:
    """[N, d] float32 and what each is called; None where no column holds numbers."""
    blocks: list[np.ndarray] = []
    names: list[str] = []
    text = []
    for column in columns:
        values = nodes.frame[column]
        known = values.dropna() if values.dtype == object else values.iloc[:0]
        if len(known) and isinstance(known.iloc[0], list | tuple | np.ndarray | torch.Tensor):
            numbers = _vectors(nodes, values)
        else:
            numbers = _numbers(values)[:, None]
            # Only text can be without any number: a column of NaN is numbers that are missing.
            if np.isnan(numbers).all() and not pd.api.types.is_numeric_dtype(values):
                text.append(column)
                continue
        with np.errstate(over="ignore"):
            blocks.append(numbers.astype(np.float32))
        width = numbers.shape[1]
        names += [str(column)] if width == 1 else [f"{column}[{i}]" for i in range(width)]
        _check_cells(nodes, values, blocks[-1])
    if text:
        notice(f"{nodes.title}: text is no feature; ignored {_listed(text)}.")
    return (np.concatenate(blocks, axis=1), names) if blocks else (None, None)


def _numbers(values: pd.Series) -> np.ndarray:
    """[N] float64, NaN where a cell is no number."""
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_complex_dtype(values):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if not (pd.api.types.is_object_dtype(values) or pd.api.types.is_string_dtype(values)):
        return np.full(len(values), np.nan)  # dates would become nanoseconds
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _vectors(nodes: Table, values: pd.Series) -> np.ndarray:
    """[N, d] out of a column that holds a vector a node."""
    rows = [np.atleast_1d(np.asarray(value)) for value in values]
    try:
        return np.stack(rows).reshape(len(rows), -1).astype(np.float64)
    except (ValueError, TypeError) as error:
        odd = next((i for i, row in enumerate(rows) if row.shape != rows[0].shape), None)
        if odd is None:
            raise UserError(f"{nodes.title}: column {values.name!r} must hold numbers.") from error
        raise UserError(
            f"{nodes.at(odd)}: features of unequal length: {values.name!r} of node "
            f"{_shown(nodes.frame['id'].iloc[odd])} has {rows[odd].size} values, of the first "
            f"node {rows[0].size}."
        ) from error


def _check_cells(nodes: Table, values: pd.Series, numbers: np.ndarray) -> None:
    bad = ~np.isfinite(numbers).all(axis=1)
    if not bad.any():
        return
    row = int(bad.argmax())
    cell, node = values.iloc[row], _shown(nodes.frame["id"].iloc[row])
    if isinstance(cell, str) and np.isnan(numbers[row]).all() and cell.strip():
        raise UserError(
            f"{nodes.at(row)}: column {values.name!r} of node {node} is {cell!r}, but other cells "
            "are numbers; make it one, or move the text to a column of its own."
        )
    raise UserError(
        f"{nodes.at(row)}: column {values.name!r} of node {node} is empty, NaN or infinite; "
        "fill it or drop the column."
    )


def _shown(value: object) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _listed(columns: Iterable[object]) -> str:
    return ", ".join(map(repr, columns)) or "none"
