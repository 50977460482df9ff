"""c4: a node sees itself and its cluster's node, which sees its members (the paper's M^c4)."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.partition import assign
from m3dphormer.masks.regions import Groups, own
from m3dphormer.masks.registry import register_mask


@register_mask("cluster")
def c4(data: Data, clusters: int | str | Tensor = "auto", self_loops: bool = False) -> Mask:
    """M[u, v] = 1 for real u where v is u or its cluster node; for a cluster node, its members.

    Args:
        clusters: How many clusters METIS makes, "auto", or the cluster of each node, [N].
        self_loops: Whether a cluster node sees itself as well.
    """
    cluster = assign(data, clusters)
    n, p = len(cluster), int(cluster.max()) + 1
    regions = [
        own("nodes", n),
        Groups("nodes", "clusters", cluster, gather=False),
        Groups("clusters", "nodes", cluster, gather=True),
    ]
    if self_loops:
        regions.append(own("clusters", p))
    loops = ", self_loops=True" if self_loops else ""
    return Mask(f"c4(clusters={p}{loops})", "cluster", Layout(nodes=n, clusters=p), tuple(regions))
