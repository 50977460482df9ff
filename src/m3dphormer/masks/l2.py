"""l2: a node sees its neighbours and itself (the paper's M^l2 = A, with self-loops)."""

from __future__ import annotations

from torch_geometric.data import Data

from m3dphormer.masks.adjacency import with_self_loops
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.regions import Edges
from m3dphormer.masks.registry import register_mask


@register_mask("local")
def l2(data: Data) -> Mask:
    """M[u, v] = 1 where {u, v} is an edge, or u = v, for real u and v."""
    region = Edges("nodes", "nodes", *with_self_loops(data))
    return Mask("l2", "local", Layout(nodes=int(data.num_nodes)), (region,))
