"""The graph as every mask sees it: undirected, each edge once in both directions, no self-loops."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.index import index2ptr
from torch_geometric.utils import remove_self_loops, to_undirected

from m3dphormer.errors import UserError


def edges(data: Data) -> Tensor:
    """[2, E], sorted by source, then target."""
    n = int(data.num_nodes)
    given = data.edge_index.cpu()
    if given.numel() and (int(given.max()) >= n or int(given.min()) < 0):
        raise UserError(f"The graph has {n} nodes, but an edge names node {int(given.max())}.")
    undirected: Tensor = to_undirected(remove_self_loops(given)[0], num_nodes=n)
    return undirected


def with_self_loops(data: Data) -> tuple[Tensor, Tensor]:
    """CSR of A + I: ``indptr`` [N + 1] and sorted ``indices``."""
    n = int(data.num_nodes)
    loops = torch.arange(n).repeat(2, 1)
    rows, columns = to_undirected(torch.cat([edges(data), loops], dim=1), num_nodes=n)
    return index2ptr(rows, n), columns
