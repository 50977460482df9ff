"""The one waist of the graph room: every door makes a RawGraph, ``finish`` makes the PyG Data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from m3dphormer.errors import UserError
from m3dphormer.graph.checks import check_graph, check_labels, check_split
from m3dphormer.graph.encodings import structural_features
from m3dphormer.graph.splits import GivenSplit, NoSplit, Split, SplitRule, StratifiedSplit


@dataclass(frozen=True)
class RawGraph:
    """A graph as it came in, before checks.

    Args:
        name: What the user calls it.
        edges: [2, m] int64; either direction, duplicates and self-loops allowed.
        x: [N, d] features, or None for a graph without any.
        y: [N] int64 class numbers, -1 for an unlabelled node.
        label_names: One name a class.
        source: Where it came from, recorded with every run.
        node_ids: One id a node as the user knows it; None: its position.
        rule: How split ``i`` is made; masks that came with the graph are a ``GivenSplit``.
        metric: What a score on this graph means.
        extra: Further attributes for the Data, such as the truth of a generated graph.
        need_features: False leaves ``x`` out instead of replacing it by encodings.
        need_labels: False ignores labels and split: a graph to predict on.
        encodings: Whether ``x`` was made from the edges, for want of features.
        feature_names: What each feature is called, where the user has said it.
    """

    name: str
    edges: np.ndarray
    x: np.ndarray | None
    y: np.ndarray
    label_names: Sequence[str]
    source: str
    node_ids: Sequence[object] | None = None
    rule: SplitRule = field(default_factory=lambda: StratifiedSplit(0.6, 0.2))
    metric: str = "accuracy"
    extra: dict[str, torch.Tensor] = field(default_factory=dict)
    need_features: bool = True
    need_labels: bool = True
    encodings: bool = False
    feature_names: Sequence[str] | None = None


def finish(raw: RawGraph, split: int = 0) -> Data:
    """Check a graph and give it the form every other room relies on.

    Undirected, coalesced, without self-loops; float32 ``x``; int64 ``y`` (-1 unlabelled);
    ``train_mask``, ``val_mask``, ``test_mask``; and ``name``, ``source``, ``metric``,
    ``label_names``, ``node_ids`` and ``feature_names`` (where given), ``encodings``, ``split``,
    ``split_count`` (where splits came with the graph), ``split_hash``, ``graph_hash``, and
    ``task_hash``, of graph, labels and split together.
    """
    if isinstance(split, bool) or not isinstance(split, int | np.integer) or not 0 <= split < 2**32:
        raise UserError(f"The 'split' parameter must be an int of at least 0. Got {split!r}.")
    check_graph(raw.name, raw.x, raw.edges, raw.y, raw.node_ids)
    if raw.need_labels:
        check_labels(raw.name, raw.y, raw.label_names)
    else:
        raw = replace(raw, y=np.full(len(raw.y), -1), label_names=[], rule=NoSplit())
    edge_index = torch.from_numpy(np.ascontiguousarray(raw.edges, dtype=np.int64))
    edge_index = to_undirected(remove_self_loops(edge_index)[0], num_nodes=len(raw.y))
    x = None
    if raw.x is not None:
        x = torch.from_numpy(np.array(raw.x, dtype=np.float32))
    elif raw.need_features:
        x = structural_features(raw.name, edge_index, len(raw.y))

    structure = graph_hash(edge_index, x, len(raw.y))
    parts = raw.rule.make(raw.y, int(split))
    if raw.need_labels:
        given = isinstance(raw.rule, GivenSplit)
        check_split(raw.name, parts, raw.y, raw.label_names, given=given)
    return Data(
        x=x,
        edge_index=edge_index,
        y=torch.from_numpy(raw.y.astype(np.int64)),
        train_mask=torch.from_numpy(parts.train.copy()),
        val_mask=torch.from_numpy(parts.val.copy()),
        test_mask=torch.from_numpy(parts.test.copy()),
        num_nodes=len(raw.y),
        name=raw.name,
        source=raw.source,
        metric=raw.metric,
        encodings=raw.encodings or (raw.x is None and x is not None),
        label_names=[str(name) for name in raw.label_names],
        split=int(split),
        split_count=raw.rule.count if isinstance(raw.rule, GivenSplit) else None,
        split_hash=parts.digest(),
        graph_hash=structure,
        task_hash=task_hash(structure, raw.y, raw.label_names, parts),
        **({} if raw.node_ids is None else {"node_ids": list(raw.node_ids)}),
        **({} if raw.feature_names is None else {"feature_names": list(raw.feature_names)}),
        **raw.extra,
    )


def graph_hash(edge_index: torch.Tensor, x: torch.Tensor | None, num_nodes: int) -> str:
    """Content hash of structure and features (labels and splits do not count)."""
    digest = hashlib.sha256(str(num_nodes).encode())
    for tensor in (edge_index, x):
        if tensor is not None:
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def task_hash(graph: str, y: np.ndarray, names: Sequence[str], parts: Split) -> str:
    """Content hash of what is to be learned: the graph's hash, the labels, the split."""
    words = "\n".join([graph, parts.digest(), *map(str, names)])
    return hashlib.sha256(words.encode() + y.astype(np.int64).tobytes()).hexdigest()[:16]


def class_count(data: Data) -> int:
    """Number of classes, whether or not each has a training node."""
    names = data.label_names if "label_names" in data else None
    if names:
        return len(names)
    if data.y is None or not data.y.numel():
        raise UserError("The graph has no labels; give it some.")
    return int(data.y.max()) + 1
