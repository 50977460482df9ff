"""The forms in which a part of a mask is kept, each in ids counted inside its roles.

Ids relative to a role make widening a mask to a larger layout free. Every form can give its pairs
for a range of query rows, so that whatever is counted over a mask is counted in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from m3dphormer.masks.layout import Layout, Role


class Region(Protocol):
    """A part of a mask: pairs of a query role and a key role, none of them twice."""

    @property
    def queries(self) -> Role: ...

    @property
    def keys(self) -> Role: ...

    def nnz(self, layout: Layout) -> int:
        """Number of pairs."""
        ...

    def pairs(self, layout: Layout, start: int = 0, stop: int | None = None) -> Pairs:
        """Query and key ids, each [pairs], of the queries in [start, stop)."""
        ...


Pairs = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Edges:
    """Single pairs in CSR form: query row u sees ``indices[indptr[u]:indptr[u+1]]``, sorted."""

    queries: Role
    keys: Role
    indptr: Tensor  # [rows of the query role + 1]
    indices: Tensor  # [nnz]

    @classmethod
    def of(cls, queries: Role, keys: Role, pairs: Pairs, layout: Layout) -> Edges:
        """From pairs in any order, each taken once."""
        rows, width = layout.size(queries), max(layout.size(keys), 1)
        flat = torch.unique(pairs[0] * width + pairs[1])
        query = flat.div(width, rounding_mode="floor")
        indptr = torch.zeros(rows + 1, dtype=torch.long)
        torch.cumsum(torch.bincount(query, minlength=rows), 0, out=indptr[1:])
        return cls(queries, keys, indptr, flat - query * width)

    def nnz(self, layout: Layout) -> int:
        return self.indices.numel()

    def pairs(self, layout: Layout, start: int = 0, stop: int | None = None) -> Pairs:
        ends = self.indptr[start : None if stop is None else stop + 1]
        rows = start + torch.arange(len(ends) - 1)
        return rows.repeat_interleave(ends.diff()), self.indices[ends[0] : ends[-1]]


@dataclass(frozen=True, eq=False)
class Block:
    """Every query of a set sees every key of another.

    Args:
        query_ids: The queries, sorted; None: all of the role.
        key_ids: The keys, sorted; None: all of the role.
    """

    queries: Role
    keys: Role
    query_ids: Tensor | None = None
    key_ids: Tensor | None = None

    @property
    def whole(self) -> bool:
        """Whether all queries see all keys."""
        return self.query_ids is None and self.key_ids is None

    def nnz(self, layout: Layout) -> int:
        return len(self.query_set(layout)) * len(self.key_set(layout))

    def query_set(self, layout: Layout) -> Tensor:
        """Ids of the queries."""
        return torch.arange(layout.size(self.queries)) if self.query_ids is None else self.query_ids

    def key_set(self, layout: Layout) -> Tensor:
        """Ids of the keys."""
        return torch.arange(layout.size(self.keys)) if self.key_ids is None else self.key_ids

    def pairs(self, layout: Layout, start: int = 0, stop: int | None = None) -> Pairs:
        query, key = self.query_set(layout), self.key_set(layout)
        query = query[(query >= start) & (query < (layout.total if stop is None else stop))]
        return query.repeat_interleave(len(key)), key.repeat(len(query))


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

    def pairs(self, layout: Layout, start: int = 0, stop: int | None = None) -> Pairs:
        members = (self.group >= 0).nonzero().squeeze(1)
        groups = self.group[members]
        query, key = (groups, members) if self.gather else (members, groups)
        if start or stop is not None:
            inside = (query >= start) & (query < (layout.total if stop is None else stop))
            query, key = query[inside], key[inside]
        return query, key


@dataclass(frozen=True, eq=False)
class Hops:
    """Real nodes within ``hops`` steps of each other, boolean (A + I)^hops, never kept whole.

    Args:
        indptr, indices: CSR of A + I.
    """

    indptr: Tensor
    indices: Tensor
    hops: int
    queries: Role = "nodes"
    keys: Role = "nodes"

    @cached_property
    def _one_hop(self) -> sp.csr_matrix:
        n = len(self.indptr) - 1
        ones = np.ones(len(self.indices), dtype=bool)
        return sp.csr_matrix((ones, self.indices.numpy(), self.indptr.numpy()), shape=(n, n))

    @cached_property
    def _count(self) -> int:
        n = len(self.indptr) - 1
        return sum(self._reach(at, min(at + HOP_ROWS, n)).nnz for at in range(0, n, HOP_ROWS))

    def nnz(self, layout: Layout) -> int:
        return self._count

    def pairs(self, layout: Layout, start: int = 0, stop: int | None = None) -> Pairs:
        reached = self._reach(start, len(self.indptr) - 1 if stop is None else stop)
        reached.sort_indices()
        return _pairs(reached, start)

    def walk(self) -> Iterator[Pairs]:
        """All pairs in the order of their queries, not of their keys, which is faster."""
        n, counted = len(self.indptr) - 1, 0
        for start in range(0, n, HOP_ROWS):
            reached = self._reach(start, min(start + HOP_ROWS, n))
            counted += reached.nnz
            yield _pairs(reached, start)
        self.__dict__["_count"] = counted  # a whole walk knows it; nnz need not walk again

    def _reach(self, start: int, stop: int) -> sp.csr_matrix:
        reached = self._one_hop[start:stop]
        for _ in range(self.hops - 1):
            reached = reached @ self._one_hop
        return reached


def _pairs(reached: sp.csr_matrix, start: int) -> Pairs:
    """The entries of some rows, the first of which is row ``start``."""
    rows = np.repeat(np.arange(start, start + reached.shape[0]), np.diff(reached.indptr))
    return torch.from_numpy(rows), torch.from_numpy(reached.indices.astype(np.int64))


HOP_ROWS = 512  # query rows whose hops are walked at a time
CHUNK_PAIRS = 4_000_000  # pairs that are expanded at a time


def chunks(region: Region, layout: Layout) -> Iterator[Pairs]:
    """All pairs of a region in the order of their queries, some rows at a time."""
    if isinstance(region, Hops):
        yield from region.walk()
        return
    rows = layout.size(region.queries)
    step = max(1, CHUNK_PAIRS * rows // max(region.nnz(layout), 1))
    for start in range(0, rows, step):
        yield region.pairs(layout, start, min(start + step, rows))


def own(role: Role, size: int) -> Groups:
    """Each node of a role sees itself."""
    return Groups(role, role, torch.arange(size), gather=False)
