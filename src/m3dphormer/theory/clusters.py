"""How many clusters a graph should be cut into: what each number adds to neighbours and to all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer import masks
from m3dphormer.masks.statistics import reach_keys
from m3dphormer.theory.scenarios import smoothed

SIZES = (16, 32, 64, 128, 256)  # nodes a cluster that are tried
FEWEST, MOST = 4, 2048  # clusters


@dataclass(frozen=True)
class Choice:
    """A partition, [N], and the worth of every number of clusters that was tried."""

    cluster: Tensor
    worth: dict[int, float]


def choose_clusters(
    data: Data,
    y: Tensor,
    classes: int,
    clusters: int | str | Tensor,
    others: Mapping[str, Tensor],
) -> Choice:
    """The partition whose cluster level complements the others best.

    Its worth is the mean over the nodes of known class of the best smoothed label consistency
    among the three levels.

    Args:
        y: [N] known labels, -1 for none.
        classes: Number of classes.
        clusters: A number or a partition that is given, or "auto": try some numbers.
        others: Smoothed label consistency of the other levels' masks, each [N].
    """
    tried = [clusters]
    if isinstance(clusters, str) and clusters == "auto" and "cluster" not in data:
        n = int(data.num_nodes)
        tried = [*sorted({min(n, max(FEWEST, min(MOST, round(n / size)))) for size in SIZES})]
    beside = torch.stack(list(others.values())).amax(dim=0)
    found: dict[int, tuple[float, Tensor]] = {}
    for one in tried:
        cluster = masks.assign(data, one)
        mask = masks.c3(data, cluster)
        share = smoothed(reach_keys(mask.regions, mask.layout, y), classes)
        worth = float(torch.maximum(share, beside)[y >= 0].mean())
        found[int(cluster.max()) + 1] = (worth, cluster)
    best = max(found, key=lambda count: found[count][0])
    return Choice(found[best][1], {count: worth for count, (worth, _) in found.items()})
