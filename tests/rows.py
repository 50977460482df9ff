"""Masks made from plain rows of keys, for the tests of kernels."""

from __future__ import annotations

import torch

from m3dphormer.masks import Layout, Mask
from m3dphormer.masks.regions import Edges


def mask_of(rows: list[list[int]]) -> Mask:
    """The mask whose query u sees the keys ``rows[u]``."""
    counts = torch.tensor([0, *(len(keys) for keys in rows)])
    keys = torch.tensor([key for keys in rows for key in sorted(keys)], dtype=torch.long)
    edges = Edges("nodes", "nodes", counts.cumsum(0), keys)
    return Mask("rows", "local", Layout(nodes=len(rows)), (edges,))


def hub(nodes: int = 6000) -> Mask:
    """One huge row, one huge column, rows without keys between."""
    rows = [list(range(nodes))] + [[0] if u % 3 else [] for u in range(1, nodes)]
    return mask_of(rows)


def power_law(nodes: int = 3000, seed: int = 0) -> Mask:
    """Degrees from none to thousands, asymmetric."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(nodes):
        degree = int(min(nodes, 2 / torch.rand((), generator=generator).clamp_min(1e-4))) - 2
        rows.append(torch.randperm(nodes, generator=generator)[:degree].tolist())
    return mask_of(rows)
