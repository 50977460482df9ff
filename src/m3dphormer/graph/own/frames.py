"""The user's own graph as two pandas frames, or as a networkx graph."""

from __future__ import annotations

from typing import Any

import pandas as pd
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph.own.tables import table, tables_to_raw
from m3dphormer.graph.raw import finish


def from_frames(
    nodes: pd.DataFrame,
    edges: pd.DataFrame,
    *,
    name: str = "frames",
    split: int = 0,
    labels: bool = True,
) -> Data:
    """Make a graph out of a frame of nodes and a frame of edges.

    Args:
        nodes: Columns ``id`` (of any hashable kind), ``label`` (missing, or -1 beside
            class numbers from 0: unlabelled), optional ``split`` (train, val, test or missing);
            every other column is a feature.
        edges: ``source`` and ``target``, else the first two columns, naming node ids.
        name: What the graph is called.
        split: Which drawn split, where ``nodes`` gives none.
        labels: False for a graph to predict on, whose ``label`` may be missing and does not count.
    """
    for what, frame in (("nodes", nodes), ("edges", edges)):
        if not isinstance(frame, pd.DataFrame):
            raise UserError(
                f"The {what!r} parameter must be a pandas DataFrame. Got {type(frame).__name__}."
            )
    node_table, edge_table = table(nodes, f"{name}: nodes"), table(edges, f"{name}: edges")
    raw = tables_to_raw(name, node_table, edge_table, "pandas frames in memory", labels)
    return finish(raw, split)


def from_networkx(
    graph: Any,
    *,
    label: str = "label",
    split_by: str = "split",
    name: str = "networkx",
    split: int = 0,
) -> Data:
    """Make a graph out of a networkx graph, directed or not, whose attributes are features.

    Args:
        graph: A node is its own id. A vector attribute, such as ``x``, becomes one feature an
            entry; an edge attribute is ignored with a notice.
        label: The node attribute to learn; a node without it, or with -1 beside class numbers
            from 0, is unlabelled.
        split_by: The node attribute that gives the split, if any node has it.
        name: What the graph is called.
        split: Which drawn split, where the nodes give none.
    """
    if not (hasattr(graph, "nodes") and hasattr(graph, "edges")):
        raise UserError(
            f"The 'graph' parameter must be a networkx graph. Got {type(graph).__name__}."
        )
    ids = list(graph.nodes)
    attributes = pd.DataFrame(
        [graph.nodes[node] for node in ids], columns=None if ids else pd.Index([label])
    )
    if label not in attributes:
        raise UserError(
            f"{name}: no node has the attribute {label!r}, the one to learn. "
            f"Found {', '.join(map(repr, attributes)) or 'none'}."
        )
    columns = {key: f"attribute {key}" for key in ("id", "label", "split")}
    columns |= {split_by: "split", label: "label"}
    nodes = attributes.rename(columns=columns).assign(id=pd.Series(ids, dtype=object))

    ends = [(edge[0], edge[1]) for edge in graph.edges]
    further = dict.fromkeys(key for *_, data in graph.edges(data=True) for key in data)
    edges = pd.DataFrame(
        {
            **{f"attribute {key}": 0 for key in further},
            "source": pd.Series([source for source, _ in ends], dtype=object),
            "target": pd.Series([target for _, target in ends], dtype=object),
        }
    )
    node_table, edge_table = table(nodes, f"{name}: nodes"), table(edges, f"{name}: edges")
    return finish(tables_to_raw(name, node_table, edge_table, "networkx graph in memory"), split)
