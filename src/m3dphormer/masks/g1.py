"""g1: every node sees every node (the paper's M^g1)."""

from __future__ import annotations

from torch_geometric.data import Data

from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.regions import Block
from m3dphormer.masks.registry import register_mask


@register_mask("global")
def g1(data: Data) -> Mask:
    """M[u, v] = 1 for all real u and v."""
    return Mask("g1", "global", Layout(nodes=int(data.num_nodes)), (Block("nodes", "nodes"),))
