"""g3: a node sees every class node; a class node sees its training nodes (the paper's M^g3)."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from m3dphormer.errors import notice
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
    sizes = torch.bincount(trained[trained >= 0], minlength=classes)
    if 0 < int((sizes > 0).sum()) < classes:  # without any it is a graph to predict on
        empty = int((sizes == 0).nonzero()[0])
        name = data.label_names[empty] if "label_names" in data else empty
        notice(f"g3: class {name!r} has no training node; its class node sees nobody.")
    regions = (
        Block("nodes", "classes"),
        Groups("classes", "nodes", trained, gather=True),
    )
    layout = Layout(nodes=int(data.num_nodes), classes=classes)
    return Mask(f"g3(classes={classes})", "global", layout, regions)
