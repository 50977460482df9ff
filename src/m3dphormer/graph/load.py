"""``load``: a graph by name or by path; and the list of all that have a name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch_geometric.data import Data

from m3dphormer.errors import UserError, unknown
from m3dphormer.graph.benchmarks import BENCHMARKS, benchmark_source, load_benchmark
from m3dphormer.graph.digits import digits
from m3dphormer.graph.hierarchy import hierarchy
from m3dphormer.graph.homophily import edge_homophily
from m3dphormer.graph.own import load_path
from m3dphormer.graph.raw import RawGraph, class_count, finish

EMBEDDED: dict[str, Callable[[], RawGraph]] = {"digits": digits, "hierarchy": hierarchy}


def load(
    dataset: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    split: int = 0,
    *,
    features: bool = True,
    labels: bool = True,
) -> Data:
    """Load a graph with split number ``split``.

    Args:
        dataset: A known name (``m3dphormer datasets`` lists them) or the path of your own graph:
            a ``.npz``, a ``.pt``, or a folder or ``.zip`` with nodes and edges as csv or parquet.
        root: Where raw benchmark files lie; None: ``$M3DPHORMER_DATA``, the cache, a download.
        split: Which split: benchmark splits are fixed, the others are drawn with this seed.
        features: False loads a benchmark's edges and labels alone.
        labels: False for a graph to predict on, whose labels may be missing and do not count.

    Returns:
        An undirected, checked ``Data`` with ``x``, ``edge_index``, ``y``, ``train_mask``,
        ``val_mask``, ``test_mask``, ``label_names`` and ``source``.
    """
    name = os.fspath(dataset)
    folder = None if root is None else Path(root)
    if name.lower() in EMBEDDED:
        return finish(replace(EMBEDDED[name.lower()](), need_labels=labels), split)
    if name.lower() in BENCHMARKS:
        raw = load_benchmark(name.lower(), folder, features=features)
        return finish(replace(raw, need_labels=labels), split)
    if Path(name).exists():
        return load_path(name, split, labels=labels)
    if Path(name).name != name or Path(name).suffix:
        raise UserError(f"No file or folder {name!r}; check the path.")
    raise unknown("dataset", name, [*EMBEDDED, *BENCHMARKS])


def content_hash(dataset: str, data: Data) -> str:
    """What tells whether it is the same task: of a benchmark, whose labels are fixed, the graph."""
    known = dataset.lower() in EMBEDDED or dataset.lower() in BENCHMARKS
    return str(data.graph_hash if known else data.task_hash)


@dataclass(frozen=True)
class Listed:
    """A known dataset: its numbers (an edge counts once) and where it would come from."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    homophily: float
    source: str


def datasets(root: str | os.PathLike[str] | None = None) -> list[Listed]:
    """All datasets that have a name; nothing is downloaded."""
    listed = []
    for name, make in EMBEDDED.items():
        data = finish(make())
        listed.append(
            Listed(
                name=name,
                nodes=int(data.num_nodes),
                edges=int(data.num_edges) // 2,
                features=int(data.num_features),
                classes=class_count(data),
                homophily=edge_homophily(data),
                source=data.source,
            )
        )
    for name, benchmark in BENCHMARKS.items():
        n = benchmark.numbers
        source = benchmark_source(name, Path(root) if root is not None else None)
        listed.append(Listed(name, n.nodes, n.edges, n.features, n.classes, n.homophily, source))
    return listed
