"""c2: a cluster node sees every real node (the paper's M^c2)."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.partition import assign
from m3dphormer.masks.regions import Block
from m3dphormer.masks.registry import register_mask


@register_mask("cluster")
def c2(data: Data, clusters: int | str | Tensor = "auto") -> Mask:
    """M[u, v] = 1 where u is a cluster node and v any real node.

    Args:
        clusters: How many clusters METIS makes, "auto", or the cluster of each node, [N].
    """
    cluster = assign(data, clusters)
    layout = Layout(nodes=len(cluster), clusters=int(cluster.max()) + 1)
    return Mask(f"c2(clusters={layout.clusters})", "cluster", layout, (Block("clusters", "nodes"),))
