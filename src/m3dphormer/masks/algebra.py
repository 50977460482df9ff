"""Union, intersection, restriction and equality of masks, region by region.

Regions are compared inside one pair of roles at a time. Where only one side has regions there, or
one of them is a whole block, nothing is expanded; else both sides become sorted pair numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from m3dphormer.errors import UserError
from m3dphormer.masks.layout import ROLES, Layout, Role
from m3dphormer.masks.regions import Block, Edges, Region

Regions = tuple[Region, ...]


def union(left: Regions, right: Regions, layout: Layout) -> Regions:
    """Pairs of either side."""
    out: list[Region] = []
    for roles in _role_pairs(left, right):
        mine, theirs = _between(left, roles), _between(right, roles)
        if not mine or not theirs:
            out += mine or theirs
        elif _is_whole(mine) or _is_whole(theirs):
            out.append(Block(*roles))
        else:
            flat = torch.cat([_numbers(mine, layout), _numbers(theirs, layout)])
            out.append(_edges(roles, flat, layout))
    return tuple(out)


def intersection(left: Regions, right: Regions, layout: Layout) -> Regions:
    """Pairs of both sides."""
    out: list[Region] = []
    for roles in _role_pairs(left, right):
        mine, theirs = _between(left, roles), _between(right, roles)
        if not mine or not theirs:
            continue
        if _is_whole(mine):
            out += theirs
        elif _is_whole(theirs):
            out += mine
        else:
            flat, other = _numbers(mine, layout), _numbers(theirs, layout)
            out.append(_edges(roles, flat[torch.isin(flat, other)], layout))
    return tuple(out)


def same_pairs(left: Regions, right: Regions, layout: Layout) -> bool:
    """Whether both sides hold the same pairs."""
    for roles in _role_pairs(left, right):
        mine, theirs = _between(left, roles), _between(right, roles)
        if _is_whole(mine) and _is_whole(theirs):
            continue
        if sum(r.nnz(layout) for r in mine) != sum(r.nnz(layout) for r in theirs):
            return False
        if not torch.equal(_numbers(mine, layout), _numbers(theirs, layout)):
            return False
    return True


def restrict(
    regions: Regions,
    layout: Layout,
    queries: Role | Tensor | None,
    keys: Role | Tensor | None,
) -> Regions:
    """Only the pairs whose query and key are among the given ones."""
    query_rows, key_rows = _chosen(queries, "queries", layout), _chosen(keys, "keys", layout)
    out: list[Region] = []
    for region in regions:
        query = None if query_rows is None else query_rows[layout.rows(region.queries)]
        key = None if key_rows is None else key_rows[layout.rows(region.keys)]
        all_queries, all_keys = query is None or bool(query.all()), key is None or bool(key.all())
        if all_queries and all_keys:
            out.append(region)
        elif isinstance(region, Block):
            some_queries, some_keys = region.query_set(layout), region.key_set(layout)
            out.append(
                Block(
                    region.queries,
                    region.keys,
                    region.query_ids if query is None else some_queries[query[some_queries]],
                    region.key_ids if key is None else some_keys[key[some_keys]],
                )
            )
        else:
            u, v = region.pairs(layout)
            kept = torch.ones(len(u), dtype=torch.bool)
            if query is not None:
                kept &= query[u]
            if key is not None:
                kept &= key[v]
            out.append(Edges.of(region.queries, region.keys, (u[kept], v[kept]), layout))
    return tuple(region for region in out if region.nnz(layout))


def assemble(regions: Regions, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
    """All pairs in row order over the T rows: indptr [T + 1], rows [nnz], columns [nnz]."""
    total = layout.total
    flat = [torch.empty(0, dtype=torch.long)]
    for region in regions:
        query, key = region.pairs(layout)
        start = layout.start(region.queries) * total + layout.start(region.keys)
        flat.append(query * total + key + start)
    numbers = torch.cat(flat).sort().values
    rows = numbers.div(max(total, 1), rounding_mode="floor")
    indptr = torch.zeros(total + 1, dtype=torch.long)
    torch.cumsum(torch.bincount(rows, minlength=total), 0, out=indptr[1:])
    return indptr, rows, numbers - rows * total


def _role_pairs(*sides: Iterable[Region]) -> list[tuple[Role, Role]]:
    """All pairs of roles that any side has, in the order of the layout."""
    found = {(region.queries, region.keys) for side in sides for region in side}
    return sorted(found, key=lambda roles: (ROLES.index(roles[0]), ROLES.index(roles[1])))


def _between(regions: Regions, roles: tuple[Role, Role]) -> list[Region]:
    return [region for region in regions if (region.queries, region.keys) == roles]


def _is_whole(regions: Sequence[Region]) -> bool:
    return any(isinstance(region, Block) and region.whole for region in regions)


def _numbers(regions: Sequence[Region], layout: Layout) -> Tensor:
    """Pairs of regions between the same two roles as sorted numbers query * keys + key."""
    if not regions:
        return torch.empty(0, dtype=torch.long)
    width = layout.size(regions[0].keys)
    pairs = [region.pairs(layout) for region in regions]
    return torch.cat([query * width + key for query, key in pairs]).sort().values


def _edges(roles: tuple[Role, Role], numbers: Tensor, layout: Layout) -> Edges:
    width = max(layout.size(roles[1]), 1)
    query = numbers.div(width, rounding_mode="floor")
    return Edges.of(*roles, (query, numbers - query * width), layout)


def _chosen(given: Role | Tensor | None, side: str, layout: Layout) -> Tensor | None:
    """Which of the T rows are meant, [T] bool."""
    if given is None:
        return None
    total = layout.total
    chosen = torch.zeros(total, dtype=torch.bool)
    if isinstance(given, str):
        if given not in ROLES:
            roles = ", ".join(ROLES)
            raise UserError(f"The {side!r} parameter must be one of {roles}. Got {given!r}.")
        chosen[layout.rows(given)] = True
    elif given.dtype == torch.bool:
        if given.shape != (total,):
            raise UserError(f"The {side!r} parameter has {len(given)} entries for {total} rows.")
        chosen = given.cpu()
    else:
        if given.numel() and not 0 <= int(given.min()) <= int(given.max()) < total:
            raise UserError(f"The {side!r} parameter names rows outside 0 to {total - 1}.")
        chosen[given.cpu().long()] = True
    return chosen
