"""g3: a node sees every class node; a class node sees its training nodes (the paper's M^g3)."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from m3dphormer.graph import class_count
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.regions import Block, Groups
from m3dphormer.masks.registry import register_mask


@register_mask("global")
def g3(data: Data) -> Mask:
    """M[u, v] = 1 for real u and any class node v; for a class node, its **training** nodes."""
    classes = class_count(data)
    trained = torch.where(data.train_mask, data.y, -1).cpu()
    regions = (
        Block("nodes", "classes"),
        Groups("classes", "nodes", trained, gather=True),
    )
    layout = Layout(nodes=int(data.num_nodes), classes=classes)
    return Mask(f"g3(classes={classes})", "global", layout, regions)
