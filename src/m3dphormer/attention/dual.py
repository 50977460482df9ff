"""The paper's dual scheme (Eq. 6): each region of a mask dense or sparse, whichever is leaner.

A region is a set of query rows with all their keys. Proposition 2: the sparse form takes less
memory where the region's share of non-zeros is under 1 / (3 d_h).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from m3dphormer.attention.dense import attend_rows
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.scores import Rows, Scores
from m3dphormer.attention.sparse import PairList, attend_pairs
from m3dphormer.masks import Mask
from m3dphormer.masks.layout import ROLES, Layout
from m3dphormer.masks.regions import Block, Groups, Region


@dataclass(frozen=True)
class DualRegion:
    """Query rows that are computed together.

    Args:
        queries: Which of the T rows.
        keys: All rows that any of them sees.
        shape: How many queries and keys.
        pairs: Their pairs.
        columns: [m] place of each pair's key among ``keys``.
    """

    queries: Rows
    keys: Rows
    shape: tuple[int, int]
    pairs: PairList
    columns: Tensor

    @property
    def density(self) -> float:
        """Share of non-zeros among queries x keys."""
        return len(self.columns) / (self.shape[0] * self.shape[1])

    @cached_property
    def seen(self) -> Tensor | None:
        """[queries, keys] who sees whom; None where everyone sees everyone."""
        if self.density == 1:
            return None
        seen = torch.zeros(self.shape, dtype=torch.bool, device=self.columns.device)
        seen[self.pairs.rows, self.columns] = True
        return seen

    def sparser(self, head_width: int) -> bool:
        """Whether Proposition 2 takes the sparse form."""
        return self.density < memory_threshold(head_width)


def memory_threshold(head_width: int) -> float:
    """Density under which the sparse form takes less memory: 6 m H d_h < 2 H N^2."""
    return 1 / (3 * head_width)


def dual(scores: Scores, v: Tensor, mask: Mask, dropout: Dropout | None) -> Tensor:
    """Attention region by region, [T, H, d_h]; rows outside every region stay 0."""
    parts, places = [], []
    for region in dual_regions(mask, v.device):
        if region.sparser(v.shape[2]):
            parts.append(attend_pairs(scores, v, region.pairs, dropout))
        else:
            parts.append(attend_rows(scores, v, region.seen, dropout, region.queries, region.keys))
        places.append(torch.arange(len(v), device=v.device)[region.queries])
    if not parts:
        return torch.zeros_like(v)
    return torch.zeros_like(v).index_copy(0, torch.cat(places), torch.cat(parts))


def dual_regions(mask: Mask, device: torch.device | str = "cpu") -> list[DualRegion]:
    """How ``dual`` cuts a mask: l2 one region; c4 real rows and cluster rows; g3 real rows and one
    a class; any other mask one for each of its own regions, those that share rows together.
    """
    place = torch.device(device)
    key = ("dual", place)
    if key not in mask.memo:
        cuts = (_dual_region(mask.layout, regions, place) for regions in cut_regions(mask))
        mask.memo[key] = [cut for cut in cuts if cut is not None]
    found: list[DualRegion] = mask.memo[key]
    return found


def cut_regions(mask: Mask) -> Iterator[Sequence[Region]]:
    """Groups of regions, such that every row's keys are in one of them."""
    for role in ROLES:
        regions = [region for region in mask.regions if region.queries == role]
        if role == "classes" and len(regions) == 1 and isinstance(regions[0], Groups):
            yield from ([block] for block in _one_block_a_class(regions[0], mask.layout))
        elif _disjoint_blocks(regions, mask.layout):
            yield from ([region] for region in regions)
        elif regions:
            yield regions


def _one_block_a_class(groups: Groups, layout: Layout) -> list[Block]:
    query, key = groups.pairs(layout)
    return [
        Block("classes", groups.keys, query_ids=torch.tensor([c]), key_ids=key[query == c])
        for c in torch.unique(query).tolist()
    ]


def _disjoint_blocks(regions: Sequence[Region], layout: Layout) -> bool:
    blocks = [region for region in regions if isinstance(region, Block)]
    if not blocks or len(blocks) < len(regions):
        return False
    queries = torch.cat([block.query_set(layout) for block in blocks])
    return len(torch.unique(queries)) == len(queries)


def _dual_region(
    layout: Layout, regions: Sequence[Region], device: torch.device
) -> DualRegion | None:
    numbers = []
    for region in regions:
        u, v = region.pairs(layout)
        start = layout.start(region.queries) * layout.total + layout.start(region.keys)
        numbers.append(u * layout.total + v + start)
    flat = torch.cat(numbers).sort().values
    if not len(flat):
        return None
    query = flat.div(layout.total, rounding_mode="floor")
    key = flat - query * layout.total
    queries, rows, sizes = torch.unique_consecutive(query, return_inverse=True, return_counts=True)
    keys, columns = torch.unique(key, return_inverse=True)
    indptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    return DualRegion(
        queries=_as_rows(queries, device),
        keys=_as_rows(keys, device),
        shape=(len(queries), len(keys)),
        pairs=PairList(*(tensor.to(device) for tensor in (indptr, rows, query, key))),
        columns=columns.to(device),
    )


def _as_rows(ids: Tensor, device: torch.device) -> Rows:
    """A slice where the numbers are consecutive, which indexes without a copy."""
    first, last = int(ids[0]), int(ids[-1])
    return slice(first, last + 1) if last - first + 1 == len(ids) else ids.to(device)
