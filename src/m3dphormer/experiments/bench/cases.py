"""What is measured: graphs at the widths that people train them at, forms, heaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch_geometric.data import Data

from m3dphormer.attention import DEFAULT_SCHEME
from m3dphormer.errors import unknown

OURS = DEFAULT_SCHEME
KINDS = ("dot", "additive")
PYG = {"dot": "pyg TransformerConv", "additive": "pyg GATConv"}
POLYNORMER = "polynormer"
EPOCHS = (OURS, "dual", "sparse", POLYNORMER)  # M3Dphormer by scheme, and its fastest rival
DENSE_BELOW = 4_000  # rows past which a dense form would take most of the time and memory
DROPOUT = 0.3
DEGREE = 16  # mean, of the random graphs in the growth measurement
GROWN = {"heads": 4, "head_width": 32}  # at 2^16 rows a table is more than a cache of 32 MB

HEAPS: dict[str, dict[str, str]] = {  # settings of glibc's heap, each in a process of its own
    "default": {},
    # Freed memory stays with the process: the rivals' temporaries cost no page faults.
    "warm": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184"},
}


def forms(kind: str, rows: int | None = None) -> list[str]:
    """The forms of attention that are compared, ours first; dense only on few rows."""
    dense = ["dense"] if rows is not None and rows <= DENSE_BELOW else []
    return [OURS, "sparse", "dual", *dense, PYG[kind]]


@dataclass(frozen=True)
class Shape:
    """A graph and the network it is trained with."""

    graph: str
    width: int
    layers: int
    heads: int
    clusters: int

    @property
    def head_width(self) -> int:
        return self.width // self.heads


SHAPES = {
    shape.graph: shape
    for shape in (
        Shape("cora", 64, 2, 2, 128),
        Shape("citeseer", 64, 2, 2, 128),
        Shape("pubmed", 128, 3, 4, 192),
        Shape("photo", 128, 3, 4, 192),
        Shape("computers", 128, 5, 4, 192),
        Shape("chameleon", 64, 2, 2, 64),
        Shape("squirrel", 64, 5, 2, 128),
        Shape("minesweeper", 64, 10, 2, 128),
        Shape("digits", 64, 2, 2, 56),
        Shape("hierarchy", 64, 2, 2, 40),
    )
}


def shape_of(graph: str) -> Shape:
    """The shape a graph is measured at."""
    if graph not in SHAPES:
        raise unknown("graph for the benchmark", graph, SHAPES)
    return SHAPES[graph]


def geometric(nodes: int) -> Data:
    """Random geometric graph: points in the unit square, neighbours within a radius.

    Nodes are numbered along a Z-order curve: neighbours lie near each other in memory, however many
    nodes there are, and what is left of the growth is the work itself.
    """
    points = np.random.default_rng(0).random((nodes, 2))
    points = points[np.argsort(_z_order((points * 2**16).astype(np.uint64)))]
    radius = np.sqrt(DEGREE / (np.pi * nodes))
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray")
    return Data(edge_index=torch.from_numpy(pairs.T.copy()), num_nodes=nodes)


def _z_order(cells: np.ndarray) -> np.ndarray:
    """Place of each cell [N, 2] of 2^16 x 2^16 along the curve: bits of both numbers in turn."""
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        cells = (cells | cells << np.uint64(shift)) & np.uint64(mask)
    return np.asarray(cells[:, 0] | cells[:, 1] << np.uint64(1))


def erdos_renyi(nodes: int) -> Data:
    """Erdős–Rényi G(N, m): no locality, so that ever more reads miss ever more caches."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(nodes, (2, nodes * DEGREE // 2), generator=generator)
    return Data(edge_index=edges, num_nodes=nodes)


RANDOM_GRAPHS = {"geometric": geometric, "erdos-renyi": erdos_renyi}
