"""c1: cluster nodes see each other (the paper's M^c1)."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.partition import assign
from m3dphormer.masks.regions import Block
from m3dphormer.masks.registry import register_mask


@register_mask("cluster")
def c1(data: Data, clusters: int | str | Tensor = "auto") -> Mask:
    """M[u, v] = 1 where u and v are both cluster nodes.

    Args:
        clusters: How many clusters METIS makes, "auto", or the cluster of each node, [N].
    """
    cluster = assign(data, clusters)
    layout = Layout(nodes=len(cluster), clusters=int(cluster.max()) + 1)
    return Mask(
        f"c1(clusters={layout.clusters})", "cluster", layout, (Block("clusters", "clusters"),)
    )
