"""Graph transformers as masks: the paper's summary table (its appendix C), as data."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.errors import unknown
from m3dphormer.masks.mask import Level, Mask
from m3dphormer.masks.registry import build_from, level_of

TRANSFORMERS: dict[str, tuple[str, ...]] = {
    "goat": ("l1",),
    "nagphormer": ("l1", "l2"),
    "vcr-graphormer": ("l1", "l2"),
    "gcformer": ("l1", "l2"),
    "nodeformer": ("l2", "g1"),
    "sgformer": ("l2", "g1"),
    "polynormer": ("l2", "g1"),
    "cobformer": ("l2", "c1", "c3"),
    "graph-vit": ("c1",),
    "cluster-gt": ("c1", "c2"),
    "exphormer": ("g2",),
    "m3dphormer": ("l2", "c4", "g3"),
}


def of(
    transformer: str,
    data: Data,
    *,
    clusters: int | str | Tensor = "auto",
    hops: int = 2,
    virtual: int = 1,
) -> dict[Level, list[Mask]]:
    """The masks that a graph transformer amounts to, by level.

    Args:
        transformer: A name of the table, such as "polynormer".
        clusters: For its cluster masks.
        hops: K of l1.
        virtual: Virtual nodes of g2.
    """
    key = transformer.lower().replace(" ", "-").replace("_", "-")
    if key not in TRANSFORMERS:
        raise unknown("graph transformer", transformer, TRANSFORMERS)
    found: dict[Level, list[Mask]] = {}
    offered = {"clusters": clusters, "hops": hops, "virtual": virtual}
    for name in TRANSFORMERS[key]:
        mask = build_from(name, data, offered)
        found.setdefault(level_of(name), []).append(mask)
    return found
