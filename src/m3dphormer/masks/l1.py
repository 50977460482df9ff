"""l1: a node sees every node within K hops (the paper's M^l1 = A^K, with self-loops)."""

from __future__ import annotations

from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.masks.adjacency import with_self_loops
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.regions import Hops
from m3dphormer.masks.registry import register_mask


@register_mask("local")
def l1(data: Data, hops: int = 2) -> Mask:
    """M[u, v] = 1 where v is within ``hops`` steps of u, boolean (A + I)^hops, for real u and v."""
    if isinstance(hops, bool) or not isinstance(hops, int) or hops < 1:
        raise UserError(f"The 'hops' parameter must be an int of at least 1. Got {hops!r}.")
    region = Hops(*with_self_loops(data), hops)
    return Mask(f"l1(hops={hops})", "local", Layout(nodes=int(data.num_nodes)), (region,))
