"""Label consistency against the hop K: why the paper takes l2 and not l1."""

from __future__ import annotations

from dataclasses import dataclass

from torch_geometric.data import Data

from m3dphormer.masks import l1


@dataclass(frozen=True)
class Hop:
    """Means over the nodes for l1(K); consistency over the nodes that have a labelled key."""

    hops: int
    receptive_field: float
    label_consistency: float


def consistency_by_hop(data: Data, hops: int = 3, *, all_labels: bool = False) -> list[Hop]:
    """k grows and ρ falls with each hop, on a homophilous graph towards the class's overall share.

    Args:
        hops: The largest K.
        all_labels: Count every label instead of those of training nodes alone.
    """
    rows = []
    for count in range(1, hops + 1):
        mask = l1(data, count)
        reached = mask.receptive_field().double().mean()
        share = mask.label_consistency(data, all_labels=all_labels).nanmean()
        rows.append(Hop(count, float(reached), float(share)))
    return rows
