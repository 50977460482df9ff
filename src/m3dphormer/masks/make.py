"""A mask of the user's own: from a list of pairs, or from a rule on pairs of nodes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import LEVELS, Level, Mask
from m3dphormer.masks.regions import Edges

ROWS = 512  # query rows that a rule is asked about at a time
Rule = Callable[[Tensor, Tensor], Tensor]


def from_edges(data: Data, pairs: Tensor, *, name: str = "edges", level: Level = "local") -> Mask:
    """A mask over the real nodes from pairs (query, key).

    Args:
        data: The graph the mask is for.
        pairs: [2, m] node numbers; a pair given twice counts once.
        name: What the mask is called.
        level: Local, cluster or global.
    """
    n = int(data.num_nodes)
    if level not in LEVELS:
        raise UserError(f"The 'level' parameter must be one of {', '.join(LEVELS)}. Got {level!r}.")
    if pairs.dim() != 2 or pairs.shape[0] != 2 or pairs.is_floating_point():
        raise UserError(
            f"The 'pairs' parameter must be node numbers of shape [2, m]. Got {list(pairs.shape)} "
            f"of {pairs.dtype}."
        )
    pairs = pairs.cpu().long()
    if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < n:
        raise UserError(f"The mask {name} names nodes outside 0 to {n - 1}, those of the graph.")
    layout = Layout(nodes=n)
    region = Edges.of("nodes", "nodes", (pairs[0], pairs[1]), layout)
    return Mask(name, level, layout, (region,))


def from_rule(data: Data, rule: Rule, *, name: str = "rule", level: Level = "local") -> Mask:
    """A mask over the real nodes where ``rule(u, v)`` is true, asked for every pair once.

    Args:
        rule: Takes node numbers u [r, 1] and v [1, N], gives booleans [r, N].
        name: What the mask is called.
        level: Local, cluster or global.
    """
    n = int(data.num_nodes)
    keys, found = torch.arange(n)[None, :], []
    for start in range(0, n, ROWS):
        queries = torch.arange(start, min(start + ROWS, n))[:, None]
        answer = rule(queries, keys)
        if answer.shape != (len(queries), n) or answer.dtype != torch.bool:
            raise UserError(
                f"The rule of {name} must give booleans of shape [{len(queries)}, {n}]. "
                f"Got {list(answer.shape)} of {answer.dtype}."
            )
        found.append(answer.nonzero().T + torch.tensor([[start], [0]]))
    return from_edges(data, torch.cat(found, dim=1), name=name, level=level)
