"""Edge homophily: the share of edges whose two nodes are of one class (the paper's appendix D)."""

from __future__ import annotations

from torch_geometric.data import Data


def edge_homophily(data: Data) -> float:
    """Over the edges with both nodes labelled; 0 where there is none."""
    source, target = data.y[data.edge_index]
    labelled = (source >= 0) & (target >= 0)
    if not bool(labelled.any()):
        return 0.0
    return float((source == target)[labelled].double().mean())
