"""Groups and their members as the passes walk them: sorted by group, in pieces of fixed length."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

PIECE = 256  # members that one thread folds before another may take over


@dataclass(frozen=True)
class Members:
    """Who is in which group.

    Args:
        ids: Members, group by group.
        first: [groups + 1] where each group's pieces begin.
        start, stop: [pieces] its members among ``ids``.
        group: [pieces] whose piece it is.
    """

    ids: Tensor
    first: Tensor
    start: Tensor
    stop: Tensor
    group: Tensor

    @classmethod
    def of(cls, group: Tensor, groups: int) -> Members:
        """From the group of each node, -1 for none."""
        inside = (group >= 0).nonzero().squeeze(1)
        ids = inside[torch.sort(group[inside], stable=True).indices]
        sizes = torch.bincount(group[inside], minlength=groups)
        pieces = (sizes + PIECE - 1) // PIECE
        first = torch.cat([pieces.new_zeros(1), pieces.cumsum(0)])
        owner = torch.arange(groups).repeat_interleave(pieces)
        begins, ends = sizes.cumsum(0) - sizes, sizes.cumsum(0)
        start = begins[owner] + PIECE * (torch.arange(len(owner)) - first[owner])
        return cls(ids, first, start, torch.minimum(start + PIECE, ends[owner]), owner)

    @property
    def pieces(self) -> int:
        return len(self.group)

    @property
    def arguments(self) -> tuple[Tensor | int, ...]:
        """As a pass takes them."""
        numbers = (len(self.first) - 1, self.pieces)
        return (self.ids, self.first, self.start, self.stop, self.group, *numbers)
