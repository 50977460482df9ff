"""The regions of a mask as ``dual`` cuts them, counted without a list of their pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from m3dphormer.attention.dual import cut_regions
from m3dphormer.masks import Mask
from m3dphormer.masks.layout import Layout, Role
from m3dphormer.masks.regions import Block, Region, chunks


@dataclass(frozen=True)
class Cut:
    """Query rows with all their keys.

    Args:
        queries, keys: Roles of the rows, joined by "+".
        shape: How many queries and keys.
        nnz: How many pairs.
        gaps: Whether some of the queries see nobody.
    """

    queries: str
    keys: str
    shape: tuple[int, int]
    nnz: int
    gaps: bool = False

    @property
    def area(self) -> int:
        """Queries x keys."""
        return self.shape[0] * self.shape[1]

    @property
    def density(self) -> float:
        """Share of non-zeros among queries x keys."""
        return self.nnz / self.area

    @property
    def full(self) -> bool:
        """Whether everyone sees everyone."""
        return self.nnz == self.area


def cuts_of(mask: Mask) -> list[Cut]:
    """All cuts of a mask that have pairs."""
    if "cuts" not in mask.memo:
        counted = (_count(regions, mask.layout) for regions in cut_regions(mask))
        mask.memo["cuts"] = [cut for cut in counted if cut.nnz]
    found: list[Cut] = mask.memo["cuts"]
    return found


def whole(mask: Mask) -> Cut:
    """All T rows at once, as ``sparse`` and ``dense`` take them."""
    total, seeing = mask.layout.total, sum(cut.shape[0] for cut in cuts_of(mask))
    return Cut("all", "all", (total, total), mask.nnz, gaps=seeing < total)


def _count(regions: Sequence[Region], layout: Layout) -> Cut:
    queries = torch.zeros(layout.total, dtype=torch.bool)
    keys = torch.zeros_like(queries)
    for region in regions:
        query, key = queries[layout.rows(region.queries)], keys[layout.rows(region.keys)]
        if isinstance(region, Block):
            query[region.query_set(layout)] = True
            key[region.key_set(layout)] = True
            continue
        for some_queries, some_keys in chunks(region, layout):
            query[some_queries] = True
            key[some_keys] = True
    return Cut(
        queries=_joined([region.queries for region in regions]),
        keys=_joined([region.keys for region in regions]),
        shape=(int(queries.sum()), int(keys.sum())),
        nnz=sum(region.nnz(layout) for region in regions),
    )


def _joined(roles: Sequence[Role]) -> str:
    return "+".join(dict.fromkeys(roles))
