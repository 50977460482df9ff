"""A mask among some of its real nodes alone: the others are as if they were not there."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from m3dphormer.masks.layout import Layout, Role
from m3dphormer.masks.mask import Mask
from m3dphormer.masks.regions import Block, Edges, Groups, Region


def among(mask: Mask, nodes: Tensor) -> Mask:
    """The pairs between these nodes [n], sorted, and all virtual nodes, numbered anew."""
    place = torch.full((mask.layout.nodes,), -1)
    place[nodes] = torch.arange(len(nodes))
    layout = replace(mask.layout, nodes=len(nodes))
    regions = tuple(_among(region, mask.layout, layout, nodes, place) for region in mask.regions)
    return Mask(f"{mask.name} among {len(nodes)} nodes", mask.level, layout, regions)


def _among(region: Region, before: Layout, after: Layout, nodes: Tensor, place: Tensor) -> Region:
    roles = region.queries, region.keys
    if "nodes" not in roles or (isinstance(region, Block) and region.whole):
        return region
    if isinstance(region, Groups):
        members, groups = roles[::-1] if region.gather else roles
        group = region.group[nodes] if members == "nodes" else region.group
        if groups == "nodes":
            group = torch.where(group >= 0, place[group], -1)
        return replace(region, group=group)
    query, key = (
        _numbers(ids, role, place) for ids, role in zip(region.pairs(before), roles, strict=True)
    )
    kept = (query >= 0) & (key >= 0)
    return Edges.of(*roles, (query[kept], key[kept]), after)


def _numbers(ids: Tensor, role: Role, place: Tensor) -> Tensor:
    return place[ids] if role == "nodes" else ids
