"""c3: a node sees every node of its cluster, itself included (the paper's M^c3)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.partition import assign
from m3dphormer.masks.regions import Block
from m3dphormer.masks.registry import register_mask


@register_mask("cluster")
def c3(data: Data, clusters: int | str | Tensor = "auto") -> Mask:
    """M[u, v] = 1 where real u and v are in the same cluster: one block a cluster.

    Args:
        clusters: How many clusters METIS makes, "auto", or the cluster of each node, [N].
    """
    cluster = assign(data, clusters)
    by_cluster = torch.argsort(cluster, stable=True)
    members = torch.split(by_cluster, torch.bincount(cluster).tolist())
    blocks = tuple(Block("nodes", "nodes", ids, ids) for ids in members)
    return Mask(f"c3(clusters={len(blocks)})", "cluster", Layout(nodes=len(cluster)), blocks)
