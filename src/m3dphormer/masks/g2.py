"""g2: every node and every virtual node see each other (the paper's M^g2)."""

from __future__ import annotations

from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.regions import Block
from m3dphormer.masks.registry import register_mask


@register_mask("global")
def g2(data: Data, virtual: int = 1) -> Mask:
    """M[u, v] = 1 where u is real and v one of ``virtual`` virtual nodes, or the reverse."""
    if isinstance(virtual, bool) or not isinstance(virtual, int) or virtual < 1:
        raise UserError(f"The 'virtual' parameter must be an int of at least 1. Got {virtual!r}.")
    layout = Layout(nodes=int(data.num_nodes), virtual=virtual)
    blocks = (Block("nodes", "virtual"), Block("virtual", "nodes"))
    return Mask(f"g2(virtual={virtual})", "global", layout, blocks)
