"""Receptive field and label consistency of every real node (the k and ρ of Theorem 3.1).

A real node reaches others by single pairs (edges, hops) and by whole sets (a block, or the members
of a virtual node it sees). Nodes that see the same sets share a *pattern*, whose union is counted
once; single pairs are counted in chunks of rows, where they are not in the pattern already. So
nothing here grows with N x N.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.masks.layout import Layout, Role
from m3dphormer.masks.regions import Block, Region, chunks

EVERYONE = -1  # the pattern that reaches every real node


@dataclass(frozen=True)
class Reach:
    """What each real node reaches among the other real nodes, each [N]."""

    nodes: Tensor  # how many
    labelled: Tensor  # how many with a known label
    own: Tensor  # how many of those are of its own class


def receptive_field(regions: tuple[Region, ...], layout: Layout) -> Tensor:
    """Number of other real nodes that each real node reaches, [N]."""
    return reach(regions, layout, torch.full((layout.nodes,), -1)).nodes


def label_consistency(
    regions: tuple[Region, ...], layout: Layout, data: Data, all_labels: bool
) -> Tensor:
    """Share of the own class among the labelled nodes that each real node reaches, [N]."""
    y = known_labels(layout, data, all_labels)
    named = len(data.label_names) if "label_names" in data else layout.classes
    class_nodes = max(1, layout.classes // max(1, named))  # of each class
    reached = reach_keys(regions, layout, y, class_nodes)
    share = reached.own.double() / reached.labelled
    return share.where(y >= 0, torch.nan)  # 0 / 0 is NaN: no labelled key


def reach_keys(
    regions: tuple[Region, ...], layout: Layout, y: Tensor, class_nodes: int = 1
) -> Reach:
    """``reach``, where the class nodes that a node sees count as labelled keys too.

    Args:
        class_nodes: How many class nodes a class has.
    """
    reached = reach(regions, layout, y)
    seen, own = _class_nodes(regions, layout, y, class_nodes)
    return Reach(reached.nodes, reached.labelled + seen, reached.own + own)


def known_labels(layout: Layout, data: Data, all_labels: bool) -> Tensor:
    """Labels that count, [N]; -1 for every other node."""
    if int(data.num_nodes) != layout.nodes:
        raise UserError(
            f"The mask is over {layout.nodes} nodes, the graph has {int(data.num_nodes)}; "
            "give the graph it was built on."
        )
    y = data.y.cpu()
    return y if all_labels else torch.where(data.train_mask.cpu(), y, -1)


def reach(regions: tuple[Region, ...], layout: Layout, y: Tensor) -> Reach:
    """Count what each real node reaches; ``y`` [N] are the labels that count, -1 for none."""
    sets, known = _Sets.of(regions, layout), y >= 0
    nodes, labelled, own = (torch.zeros(layout.nodes, dtype=torch.long) for _ in range(3))
    unions = {EVERYONE: torch.arange(layout.nodes), **dict(enumerate(sets.members))}
    for pattern, rows in sets.rows():
        members = unions[pattern]
        per_class = torch.bincount(y[members].clamp(min=-1) + 1, minlength=int(y.max()) + 2)
        nodes[rows] = len(members)
        labelled[rows] = per_class[1:].sum()
        own[rows] = per_class[y[rows] + 1] * known[rows]
        inside = members[sets.pattern[members] == pattern]  # a node does not reach itself
        nodes[inside] -= 1
        labelled[inside] -= known[inside].long()
        own[inside] -= known[inside].long()
    for region in regions:
        if (region.queries, region.keys) != ("nodes", "nodes") or isinstance(region, Block):
            continue
        for u, v in chunks(region, layout):
            old = (u == v) | sets.holds(u, v)  # few: taken off, not left out
            for pairs, sign in (((u, v), 1), ((u[old], v[old]), -1)):
                for total, counted in zip((nodes, labelled, own), _tally(*pairs, y), strict=True):
                    total += sign * counted
    return Reach(nodes, labelled, own)


def _tally(u: Tensor, v: Tensor, y: Tensor) -> Iterator[Tensor]:
    """How often each node is a query, with a labelled key, and with one of its class, each [N]."""
    label = y[v]
    for counted in (u, u[label >= 0], u[(label >= 0) & (y[u] == label)]):
        yield torch.bincount(counted, minlength=len(y))


@dataclass(frozen=True)
class _Sets:
    """What each real node reaches as whole sets.

    Args:
        pattern: [N] number of the union that a node reaches, or ``EVERYONE``.
        members: The nodes of each union, sorted.
        pairs: Sorted numbers pattern * N + node of all members.
    """

    pattern: Tensor
    members: list[Tensor]
    pairs: Tensor

    @classmethod
    def of(cls, regions: tuple[Region, ...], layout: Layout) -> _Sets:
        seen = _seen_sets(regions, layout)
        # Nodes with the same sets get the same sum of random words.
        rng = np.random.RandomState(0)
        code = np.zeros(layout.nodes, dtype=np.uint64)
        everyone = np.zeros(layout.nodes, dtype=bool)
        for who, whom in seen:
            if len(whom) == layout.nodes:
                everyone[who.numpy()] = True
            else:
                code[who.numpy()] += rng.randint(2**63, dtype=np.uint64)
        code[everyone] = 0
        _, first, pattern = np.unique(code, return_index=True, return_inverse=True)
        groups: list[list[Tensor]] = [[] for _ in first]
        for who, whom in seen:
            if len(whom) < layout.nodes:
                rows = who.numpy()
                for number in np.unique(pattern[rows[~everyone[rows]]]):
                    groups[number].append(whom)
        empty = torch.empty(0, dtype=torch.long)
        members = [torch.unique(torch.cat([empty, *group])) for group in groups]
        pairs = [number * layout.nodes + nodes for number, nodes in enumerate(members)]
        numbers = torch.from_numpy(np.where(everyone, EVERYONE, pattern))
        return cls(numbers, members, torch.cat([empty, *pairs]))

    def rows(self) -> Iterator[tuple[int, Tensor]]:
        """Each pattern with the nodes that have it."""
        patterns, sizes = torch.unique(self.pattern, return_counts=True)
        by_pattern = torch.split(torch.argsort(self.pattern, stable=True), sizes.tolist())
        return zip(patterns.tolist(), by_pattern, strict=True)

    def holds(self, u: Tensor, v: Tensor) -> Tensor:
        """Whether v is in the union of u, for pairs of nodes."""
        everyone = self.pattern[u] == EVERYONE
        if not len(self.pairs):
            return everyone
        wanted = self.pattern[u] * len(self.pattern) + v
        at = torch.searchsorted(self.pairs, wanted).clamp(max=len(self.pairs) - 1)
        return everyone | (self.pairs[at] == wanted)


def _seen_sets(regions: tuple[Region, ...], layout: Layout) -> list[tuple[Tensor, Tensor]]:
    """(real nodes, the set that each of them reaches), for blocks and through virtual nodes."""
    seen = []
    for region in regions:
        if region.queries != "nodes":
            continue
        if region.keys == "nodes":
            if isinstance(region, Block):
                seen.append((region.query_set(layout), region.key_set(layout)))
            continue
        members = _members(regions, layout, region.keys)
        if isinstance(region, Block):
            through = [members[i] for i in region.key_set(layout).tolist()]
            seen.append((region.query_set(layout), torch.unique(torch.cat(through))))
            continue
        who, through_node = region.pairs(layout)
        order = torch.argsort(through_node, stable=True)
        sizes = torch.bincount(through_node, minlength=layout.size(region.keys)).tolist()
        seen += list(zip(torch.split(who[order], sizes), members, strict=True))
    return [(who, whom) for who, whom in seen if len(who) and len(whom)]


def _members(regions: tuple[Region, ...], layout: Layout, role: Role) -> list[Tensor]:
    """The real nodes that each virtual node of a role sees."""
    empty = torch.empty(0, dtype=torch.long)
    seen = [[empty] for _ in range(layout.size(role))]
    for region in regions:
        if (region.queries, region.keys) != (role, "nodes"):
            continue
        if isinstance(region, Block):
            keys = region.key_set(layout)
            for node in region.query_set(layout).tolist():
                seen[node].append(keys)
            continue
        query, key = region.pairs(layout)
        order = torch.argsort(query, stable=True)
        sizes = torch.bincount(query, minlength=layout.size(role)).tolist()
        for node, keys in enumerate(torch.split(key[order], sizes)):
            seen[node].append(keys)
    return [torch.unique(torch.cat(parts)) for parts in seen]


def _class_nodes(
    regions: tuple[Region, ...], layout: Layout, y: Tensor, class_nodes: int
) -> tuple[Tensor, Tensor]:
    """How many class nodes every real node sees, and how many of its own class, each [N]."""
    seen, own = (torch.zeros(layout.nodes, dtype=torch.long) for _ in range(2))
    for region in regions:
        if (region.queries, region.keys) == ("nodes", "classes"):
            u, v = region.pairs(layout)
            seen += torch.bincount(u, minlength=layout.nodes)
            own += torch.bincount(u[y[u] == v // class_nodes], minlength=layout.nodes)
    return seen, own
