"""The variants as settings, and which of them on which graphs make a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FULL = "full"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    FULL: {},
    "w/o local": {"experts": ["c4", "g3"]},
    "w/o cluster": {"experts": ["l2", "g3"]},
    "w/o global": {"experts": ["l2", "c4"]},
    "w/o routing": {"routing": "uniform"},
    "w/o bi-level": {"routing": "softmax"},
    "+ FFN": {"ffn": True},
    "local GAT": {"local_scores": "gat"},
    "local dot": {"local_scores": "dot"},
    "local GCN": {"local_scores": "gcn"},
    "cluster GAT": {"cluster_scores": "gat"},
    "global GAT": {"global_scores": "gat"},
    "leave one out": {"leave_one_out": True},
    "learned class nodes": {"class_features": "learned"},
    "3 class nodes": {"class_nodes": 3},
}


@dataclass(frozen=True)
class Experiment:
    """A table: which variants, and the graphs that are trained unless others are asked for."""

    variants: tuple[str, ...]
    datasets: tuple[str, ...]


EXPERIMENTS: Mapping[str, Experiment] = {
    "table3": Experiment(tuple(VARIANTS)[:6], ("cora", "chameleon", "minesweeper")),
    "ffn": Experiment((FULL, "+ FFN"), ("cora", "chameleon")),
    "ablations": Experiment(tuple(VARIANTS), ("cora", "chameleon", "minesweeper")),
}
