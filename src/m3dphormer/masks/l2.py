"""l2: a node sees its neighbours and itself (the paper's M^l2 = A, with self-loops)."""

from __future__ import annotations

from torch_geometric.data import Data
from torch_geometric.index import index2ptr
from torch_geometric.utils import add_remaining_self_loops, to_undirected

from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.regions import Edges
from m3dphormer.masks.registry import register_mask


@register_mask("local")
def l2(data: Data) -> Mask:
    """M[u, v] = 1 where {u, v} is an edge, or u = v, for real u and v."""
    n = int(data.num_nodes)
    looped = add_remaining_self_loops(data.edge_index.cpu(), num_nodes=n)[0]
    rows, columns = to_undirected(looped, num_nodes=n)
    edges = Edges("nodes", "nodes", index2ptr(rows, n), columns)
    return Mask("l2", "local", Layout(nodes=n), (edges,))
