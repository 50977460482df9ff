"""A mask: who may attend to whom, as a value with a name, a layout and a few regions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.masks import algebra, statistics
from m3dphormer.masks.layout import Layout, Role
from m3dphormer.masks.regions import Region

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Level = Literal["local", "cluster", "global"]
LEVELS: tuple[Level, ...] = ("local", "cluster", "global")  # from narrow to wide

DENSE_LIMIT = 20_000  # rows past which a dense view would take more than 400 MB
CSR_LIMIT = 1_000_000_000  # pairs past which a CSR would take more than 16 GB


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

    Masks combine with ``|`` and ``&``, aligned by role: a mask over nodes and clusters and one
    over nodes and classes give one over all three.

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

    def receptive_field(self) -> Tensor:
        """How many other real nodes each real node reaches, [N].

        Directly or through one virtual node, so that c4 counts like c3 and g2 like g1.
        """
        return statistics.receptive_field(self.regions, self.layout)

    def label_consistency(self, data: Data, *, all_labels: bool = False) -> Tensor:
        """Share of its own class among the labelled nodes that each real node reaches, [N].

        NaN for a node of unknown class or without a labelled key. Class nodes count as keys of
        their class.

        Args:
            data: The graph the mask was built on.
            all_labels: Count every label instead of those of training nodes alone.
        """
        return statistics.label_consistency(self.regions, self.layout, data, all_labels)

    def keys(self, row: int) -> Tensor:
        """Whom one of the T rows sees, sorted; no other row is expanded."""
        role, number = self.layout.role_of(row)
        found = [
            region.pairs(self.layout, number, number + 1)[1] + self.layout.start(region.keys)
            for region in self.regions
            if region.queries == role
        ]
        return torch.cat([torch.empty(0, dtype=torch.long), *found]).sort().values

    def restrict(
        self, queries: Role | Tensor | None = None, keys: Role | Tensor | None = None
    ) -> Mask:
        """Only the pairs with these queries and keys: a role, or row numbers [k] or a mask [T]."""
        regions = algebra.restrict(self.regions, self.layout, queries, keys)
        said = [
            f"{side}={given if isinstance(given, str) else '...'}"
            for side, given in (("queries", queries), ("keys", keys))
            if given is not None
        ]
        return replace(self, name=f"{self.name}[{', '.join(said)}]", regions=regions)

    def widen(self, layout: Layout) -> Mask:
        """The same pairs in a layout that has further roles."""
        return replace(self, layout=self.layout | layout)

    def __or__(self, other: Mask) -> Mask:
        layout = self.layout | other.layout
        level = max(self.level, other.level, key=LEVELS.index)
        regions = algebra.union(self.regions, other.regions, layout)
        return Mask(f"{self.name} | {other.name}", level, layout, regions)

    def __and__(self, other: Mask) -> Mask:
        layout = self.layout | other.layout
        level = min(self.level, other.level, key=LEVELS.index)
        regions = algebra.intersection(self.regions, other.regions, layout)
        return Mask(f"{self._in_brackets()} & {other._in_brackets()}", level, layout, regions)

    def __eq__(self, other: object) -> bool:
        """Whether two masks are over the same rows and hold the same pairs."""
        if not isinstance(other, Mask):
            return NotImplemented
        same_layout = self.layout == other.layout
        return same_layout and algebra.same_pairs(self.regions, other.regions, self.layout)

    def __hash__(self) -> int:
        return hash(self.layout)

    def to_csr(self, device: torch.device | str = "cpu") -> CSR:
        """All regions as one CSR over the T rows; made once a device."""
        device = torch.device(device)
        if device not in self.memo:
            on_cpu = device.type == "cpu"
            self.memo[device] = self._assemble() if on_cpu else self.to_csr().to(device)
        csr: CSR = self.memo[device]
        return csr

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

    def plot(self, ax: Axes | None = None, cluster: Tensor | None = None) -> Axes:
        """Draw the mask: rows in cluster order where ``cluster`` [N] is given, roles marked."""
        from m3dphormer.masks.picture import plot

        return plot(self, ax, cluster)

    def __repr__(self) -> str:
        return f"Mask({self.name}, {self.layout.total} rows, {self.nnz} non-zeros)"

    @cached_property
    def memo(self) -> dict[Any, Any]:
        """What others derived from this mask once and for all, such as a compute plan."""
        return {}

    def _assemble(self) -> CSR:
        if self.nnz > CSR_LIMIT:
            raise UserError(
                f"{self.name} has {self.nnz:,} non-zeros, too many for a CSR "
                f"({self.nnz * 16 / 1e9:.0f} GB)."
            )
        indptr, rows, indices = algebra.assemble(self.regions, self.layout)
        return CSR(indptr, indices, rows)

    def _in_brackets(self) -> str:
        return f"({self.name})" if " | " in self.name else self.name
