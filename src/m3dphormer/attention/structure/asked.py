"""Rewrite 8: the last layer of a training step answers only for the rows that the loss reads.

An expert whose real rows see nothing but themselves and virtual nodes (c4, g3) is computed among
those rows alone. Any other keeps all keys and loses the queries that nobody asks about.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from m3dphormer.attention.order import ordered_like
from m3dphormer.masks import Layout, Mask
from m3dphormer.masks.among import among
from m3dphormer.masks.regions import Edges

MOST = 0.8  # share of all rows; of more, choosing them costs what it saves


@dataclass(frozen=True)
class Asked:
    """Some rows of a state: real nodes and all virtual ones.

    Only what real and class nodes are told is right there. A class node sees training nodes, and
    the loss asks about all of them; of the nodes that a cluster node sees some are missing.

    Args:
        nodes: [n] the real nodes, sorted.
        rows: [s] the numbers of all these rows among the T.
        layout: Of these rows.
    """

    nodes: Tensor
    rows: Tensor
    layout: Layout
    _made: dict[tuple[int, bool], Mask] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, nodes: Tensor, layout: Layout) -> Asked | None:
        """For the sorted numbers of some real nodes [n]; None where it does not pay."""
        rows = torch.cat([nodes, torch.arange(layout.nodes, layout.total)])
        if not len(nodes) or len(rows) > MOST * layout.total:
            return None
        return cls(nodes, rows, replace(layout, nodes=len(nodes)))

    def inside(self, start: int, stop: int) -> slice:
        """Which of the rows lie in [start, stop)."""
        ends = torch.searchsorted(self.rows, torch.tensor([start, stop])).tolist()
        return slice(*ends)

    def mask(self, whole: Mask, *, confined: bool) -> Mask:
        """The part of a mask among these rows, or with these rows as queries; made once."""
        key = id(whole), confined
        if key not in self._made:
            self._made[key] = among(whole, self.nodes) if confined else self._asking(whole)
        return self._made[key]

    def _asking(self, whole: Mask) -> Mask:
        """The whole mask where fewer queries would spare no work."""
        if not all(isinstance(region, Edges) for region in whole.regions):
            return whole
        return ordered_like(whole, whole.restrict(queries=self.rows))
