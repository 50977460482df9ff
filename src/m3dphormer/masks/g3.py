"""g3: a node sees every class node; a class node sees its training nodes (the paper's M^g3)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.errors import UserError, notice
from m3dphormer.graph import class_count
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.regions import Block, Groups
from m3dphormer.masks.registry import register_mask


@register_mask("global")
def g3(data: Data, class_nodes: int = 1) -> Mask:
    """M[u, v] = 1 for real u and any class node v; for a class node, its **training** nodes.

    Args:
        class_nodes: How many class nodes a class has; each sees a share of its training nodes.
    """
    if isinstance(class_nodes, bool) or not isinstance(class_nodes, int) or class_nodes < 1:
        raise UserError(
            f"The 'class_nodes' parameter must be an int of at least 1. Got {class_nodes!r}."
        )
    classes = class_count(data)
    members = class_members(data, class_nodes)
    sizes = torch.bincount(members[members >= 0] // class_nodes, minlength=classes)
    if 0 < int((sizes > 0).sum()) < classes:  # without any it is a graph to predict on
        empty = int((sizes == 0).nonzero()[0])
        name = data.label_names[empty] if "label_names" in data else empty
        notice(f"g3: class {name!r} has no training node; its class node sees nobody.")
    regions = (
        Block("nodes", "classes"),
        Groups("classes", "nodes", members, gather=True),
    )
    layout = Layout(nodes=int(data.num_nodes), classes=classes * class_nodes)
    several = f", class_nodes={class_nodes}" if class_nodes > 1 else ""
    return Mask(f"g3(classes={classes}{several})", "global", layout, regions)


def class_members(data: Data, class_nodes: int = 1) -> Tensor:
    """The class node of each training node, [N]; -1 for every other node.

    Class c has the nodes c * class_nodes and following. Its training nodes are ordered along the
    first principal direction of their features and cut into equal parts, so that each class node
    stands for one kind of member; nodes that are alike there keep the graph's order.
    """
    trained = torch.where(data.train_mask, data.y, -1).cpu()
    if class_nodes == 1:
        return trained
    members = torch.full_like(trained, -1)
    for label in torch.unique(trained[trained >= 0]).tolist():
        inside = (trained == label).nonzero().squeeze(1)
        order = torch.sort(_along_first_direction(data.x.cpu()[inside]), stable=True).indices
        part = torch.arange(len(inside)) * class_nodes // len(inside)
        members[inside[order]] = label * class_nodes + part
    return members


def _along_first_direction(x: Tensor) -> Tensor:
    """Where each row of [n, F] lies on the first principal direction, skewed to the right, [n]."""
    x = x.double() - x.double().mean(0)
    if len(x) <= x.shape[1]:
        along: Tensor = torch.linalg.eigh(x @ x.T).eigenvectors[:, -1]
    else:
        along = x @ torch.linalg.eigh(x.T @ x).eigenvectors[:, -1]
    return along if along.pow(3).sum() >= 0 else -along
