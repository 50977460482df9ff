"""Any PyG ``Data`` of one graph: the user's own, or one that was finished here before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from m3dphormer.errors import UserError, notice
from m3dphormer.graph.own.arrays import arrays_to_raw
from m3dphormer.graph.raw import finish
from m3dphormer.graph.splits import GivenSplit

MASKS = ("train_mask", "val_mask", "test_mask")
MADE_HERE = {
    *("num_nodes", "name", "source", "split", "split_count", "split_hash", "graph_hash"),
    *("encodings", "feature_names", "task_hash"),
}
READ_HERE = {"x", "edge_index", "y", "metric", "label_names", "node_ids", *MASKS}


def from_data(
    data: Any,
    *,
    name: str | None = None,
    source: str | None = None,
    split: int = 0,
    labels: bool = True,
) -> Data:
    """Check a PyG ``Data`` and give it the form of ``load``; the input stays as it is.

    Args:
        data: ``edge_index`` [2, E] and ``y`` [N], and if it has them ``x`` [N, d], masks [N] or
            [N, S], ``label_names``, ``node_ids``, ``metric``, and further tensors, which are kept.
            Edge weights and attributes are ignored with a notice.
        name: What the graph is called; None: its own name.
        source: Where it came from; None: its own source.
        split: Which of the S splits, or which drawn one.
        labels: False for a graph to predict on: ``y`` and masks may be missing and do not count.
    """
    _refuse_others(data)
    has = {key: data[key] for key in data.keys()}  # noqa: SIM118 - iterating Data gives pairs
    name = name or str(has.get("name") or "data")
    for needed in ("edge_index", "y") if labels else ("edge_index",):
        if has.get(needed) is None:
            raise UserError(f"{name}: the Data has no {needed}. Found {', '.join(sorted(has))}.")
    on_edges = sorted(key for key in has if key.startswith("edge_") and key != "edge_index")
    if on_edges:
        notice(f"{name}: edges carry no weights here; ignored {', '.join(on_edges)}.")

    raw = arrays_to_raw(
        name,
        source or str(has.get("source") or "PyG Data in memory"),
        has.get("x"),
        has["edge_index"],
        has["y"] if labels else np.full(data.num_nodes, -1),
        [has.get(mask) if labels else None for mask in MASKS],
        has.get("label_names") if labels else [],
        has.get("node_ids"),
    )
    taken = MADE_HERE | READ_HERE | {"batch", "ptr", *on_edges}
    extra = {
        key: value.clone()
        for key, value in has.items()
        if key not in taken and isinstance(value, torch.Tensor)
    }
    # Masks [N] of a finished Data are the split that was made under its own number.
    if isinstance(raw.rule, GivenSplit) and raw.rule.train.ndim == 1:
        split = has.get("split", split)
    metric = str(has.get("metric") or raw.metric)
    encodings = bool(has.get("encodings"))
    names = has.get("feature_names")
    if raw.x is None or names is None or len(names) != raw.x.shape[1]:
        names = None
    raw = replace(raw, metric=metric, extra=extra, encodings=encodings, need_labels=labels)
    made = finish(replace(raw, feature_names=names), split)
    if "split" in has:  # finished before; None takes the attribute away
        made.split_count = has.get("split_count")
    return made


def _refuse_others(data: Any) -> None:
    way_out = "must be one graph, a torch_geometric.data.Data"
    if not isinstance(data, Data):
        raise UserError(f"The 'data' parameter {way_out}. Got {type(data).__name__}.")
    batch = data.batch if "batch" in data else None
    if isinstance(data, Batch) or (batch is not None and bool((batch != batch[:1]).any())):
        raise UserError(f"The 'data' parameter {way_out}. Got a batch of graphs.")
