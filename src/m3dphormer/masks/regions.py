"""The three forms in which a part of a mask is kept, each in ids counted inside its roles.

Ids relative to a role make widening a mask to a larger layout free.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from m3dphormer.masks.layout import Layout, Role


@dataclass(frozen=True, eq=False)
class Edges:
    """Single pairs in CSR form: query row u sees ``indices[indptr[u]:indptr[u+1]]``, sorted."""

    queries: Role
    keys: Role
    indptr: Tensor  # [rows of the query role + 1]
    indices: Tensor  # [nnz]

    def nnz(self, layout: Layout) -> int:
        return self.indices.numel()

    def pairs(self, layout: Layout) -> tuple[Tensor, Tensor]:
        """Query and key ids, each [nnz]."""
        rows = torch.arange(len(self.indptr) - 1).repeat_interleave(self.indptr.diff())
        return rows, self.indices


@dataclass(frozen=True, eq=False)
class Block:
    """Every query of one role sees every key of another."""

    queries: Role
    keys: Role

    def nnz(self, layout: Layout) -> int:
        return layout.size(self.queries) * layout.size(self.keys)

    def pairs(self, layout: Layout) -> tuple[Tensor, Tensor]:
        """Query and key ids, each [nnz]."""
        grid = torch.cartesian_prod(
            torch.arange(layout.size(self.queries)), torch.arange(layout.size(self.keys))
        )
        return grid[:, 0], grid[:, 1]


@dataclass(frozen=True, eq=False)
class Groups:
    """Members and the one node that stands for their group.

    Args:
        group: [members] the group of each member, -1 for none.
        gather: True: the group's node is the query and sees its members. False: each member
            is a query and sees its group's node.
    """

    queries: Role
    keys: Role
    group: Tensor
    gather: bool

    def nnz(self, layout: Layout) -> int:
        return int((self.group >= 0).sum())

    def pairs(self, layout: Layout) -> tuple[Tensor, Tensor]:
        """Query and key ids, each [nnz]."""
        members = (self.group >= 0).nonzero().squeeze(1)
        groups = self.group[members]
        return (groups, members) if self.gather else (members, groups)


Region = Edges | Block | Groups


def own(role: Role, size: int) -> Groups:
    """Each node of a role sees itself."""
    return Groups(role, role, torch.arange(size), gather=False)
