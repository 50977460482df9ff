"""A mask: who may attend to whom, as a value with a name, a layout and a few regions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from m3dphormer.errors import UserError
from m3dphormer.masks.layout import Layout, Role
from m3dphormer.masks.regions import Region

Level = Literal["local", "cluster", "global"]

DENSE_LIMIT = 20_000  # rows past which a dense view would take more than 400 MB


@dataclass(frozen=True)
class CSR:
    """The whole mask row by row over all T rows, keys sorted inside each row."""

    indptr: Tensor  # [T + 1]
    indices: Tensor  # [nnz]
    rows: Tensor  # [nnz], the query of each entry

    @cached_property
    def transpose(self) -> CSR:
        """Who is seen by whom: row v holds the queries that see key v, sorted; made once."""
        pattern = csr_array(
            (np.ones(len(self.indices), np.bool_), self.indices.numpy(), self.indptr.numpy()),
            shape=(len(self.indptr) - 1,) * 2,
        ).tocsc()
        indptr = torch.from_numpy(pattern.indptr.astype(np.int64))
        indices = torch.from_numpy(pattern.indices.astype(np.int64))
        if torch.equal(indptr, self.indptr) and torch.equal(indices, self.indices):
            return self
        counts = indptr.diff()
        return CSR(indptr, indices, torch.arange(len(counts)).repeat_interleave(counts))

    def to(self, device: torch.device) -> CSR:
        return CSR(self.indptr.to(device), self.indices.to(device), self.rows.to(device))


@dataclass(frozen=True, eq=False)
class Mask:
    """M in {0, 1}^{T x T}: row u may attend to column v where M[u, v] = 1 (the paper's Eq. 1).

    Args:
        name: What it is called, with its parameters.
        level: Local, cluster or global.
        layout: How many rows of each role it spans.
        regions: Its parts; no pair is in two of them.
    """

    name: str
    level: Level
    layout: Layout
    regions: tuple[Region, ...]

    @cached_property
    def nnz(self) -> int:
        """Number of pairs."""
        return sum(region.nnz(self.layout) for region in self.regions)

    @property
    def density(self) -> float:
        """Non-zeros over the product of the sizes of the roles that query and that are seen."""
        queries: set[Role] = {region.queries for region in self.regions}
        keys: set[Role] = {region.keys for region in self.regions}
        area = sum(map(self.layout.size, queries)) * sum(map(self.layout.size, keys))
        return self.nnz / area if area else 0.0

    @cached_property
    def _csr(self) -> dict[torch.device, CSR]:
        return {}

    def to_csr(self, device: torch.device | str = "cpu") -> CSR:
        """All regions as one CSR over the T rows; made once a device."""
        device = torch.device(device)
        if device not in self._csr:
            self._csr[device] = (
                _assemble(self) if device.type == "cpu" else self.to_csr().to(device)
            )
        return self._csr[device]

    def to_dense(self) -> Tensor:
        """[T, T] bool; refused where it would not fit."""
        total = self.layout.total
        if total > DENSE_LIMIT:
            raise UserError(
                f"A dense view of {self.name} would have {total:,} x {total:,} entries "
                f"({total**2 / 1e9:.1f} GB); use to_csr()."
            )
        dense = torch.zeros(total, total, dtype=torch.bool)
        csr = self.to_csr()
        dense[csr.rows, csr.indices] = True
        return dense

    def widen(self, layout: Layout) -> Mask:
        """The same pairs in a layout that has further roles."""
        return replace(self, layout=self.layout | layout)

    def __repr__(self) -> str:
        return f"Mask({self.name}, {self.layout.total} rows, {self.nnz} non-zeros)"


def _assemble(mask: Mask) -> CSR:
    layout, total = mask.layout, mask.layout.total
    rows, columns = [torch.empty(0, dtype=torch.long)], [torch.empty(0, dtype=torch.long)]
    for region in mask.regions:
        query, key = region.pairs(layout)
        rows.append(query + layout.start(region.queries))
        columns.append(key + layout.start(region.keys))
    flat = (torch.cat(rows) * total + torch.cat(columns)).sort().values
    queries = flat.div(total, rounding_mode="floor")
    indptr = torch.zeros(total + 1, dtype=torch.long)
    torch.cumsum(torch.bincount(queries, minlength=total), 0, out=indptr[1:])
    return CSR(indptr, flat - queries * total, queries)
