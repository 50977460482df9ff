"""Pictures of masks: rows are queries, columns are keys, the colour tells who looks at whom.

Pairs are counted in a grid of at most about ``CELLS`` cells a side, blocks by their sizes alone,
so that a mask on a million nodes is drawn in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.masks.layout import ROLES, Layout, Role
from m3dphormer.masks.mask import Level, Mask
from m3dphormer.masks.partition import assign
from m3dphormer.masks.regions import Block, chunks
from m3dphormer.masks.registry import build_from

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELLS = 160
MIN_SHARE = 0.16  # of the axis, for a role of few rows
FAINTEST = 0.3  # opacity of a cell with a single pair
OUTLINED = 40  # cells a side up to which each is outlined

# Okabe and Ito's colours, told apart by colour-blind readers: (query is virtual, key is virtual).
COLOURS = {
    (False, False): ("#0072B2", "a node sees a node"),
    (False, True): ("#E69F00", "a node sees a virtual node"),
    (True, False): ("#009E73", "a virtual node sees a node"),
    (True, True): ("#CC79A7", "a virtual node sees a virtual node"),
}
EMPTY, VIRTUAL_STRIP, LINE, QUIET = "#FFFFFF", "#F3F3F1", "#9A9A9A", "#666666"

HOW_TO_READ = """\
A row is who sees (the query), a column who is seen
(the key). Nodes stand in the order of their clusters.
Darker: more of the pairs there are in the mask.
Virtual nodes are few and drawn wider than to scale.
"""
GALLERY: dict[Level, dict[str, str]] = {
    "local": {
        "l1": "a node sees all within {hops} hops",
        "l2": "a node sees its neighbours",
    },
    "cluster": {
        "c1": "clusters see each other",
        "c2": "a cluster sees all nodes",
        "c3": "a node sees its cluster's nodes",
        "c4": "a node and its cluster see each other",
    },
    "global": {
        "g1": "every node sees every node",
        "g2": "nodes and virtual nodes see each other",
        "g3": "nodes see classes, which see training nodes",
    },
}


@dataclass(frozen=True)
class Axis:
    """Where the rows of a mask fall on either side of its picture.

    Args:
        edges: [cells + 1] the borders of the cells, from 0 to 1.
        spans: Where each role starts and ends.
        cell: The cell of each row of a role.
    """

    edges: np.ndarray
    spans: dict[Role, tuple[float, float]]
    cell: dict[Role, np.ndarray]

    @classmethod
    def of(cls, layout: Layout, cluster: Tensor | None = None) -> Axis:
        """Real nodes stand in the order of ``cluster`` [N], where it is given."""
        roles = [role for role in ROLES if layout.size(role)]
        # A role gets its share of the rows, at least MIN_SHARE, scaled so that all sum to 1;
        # inside a role, all rows are equally wide.
        shares = np.array([max(layout.size(role) / layout.total, MIN_SHARE) for role in roles])
        borders = np.concatenate([[0.0], np.cumsum(shares / shares.sum())])
        edges, cell, taken = [np.zeros(1)], {}, 0
        for role, start, stop in zip(roles, borders[:-1], borders[1:], strict=True):
            size = layout.size(role)
            cells = min(size, round(CELLS * (stop - start)))
            place = _order(size, cluster if role == "nodes" else None)
            cell[role] = taken + place * cells // size
            edges.append(np.linspace(start, stop, cells + 1)[1:])
            taken += cells
        spans = {role: (borders[i], borders[i + 1]) for i, role in enumerate(roles)}
        return cls(np.concatenate(edges), spans, cell)

    @property
    def cells(self) -> int:
        """Cells a side."""
        return len(self.edges) - 1

    @property
    def virtual(self) -> np.ndarray:
        """Whether each cell is one of virtual rows, [cells] bool."""
        return np.asarray(np.arange(self.cells) > self.cell["nodes"].max())

    @property
    def rows(self) -> np.ndarray:
        """Rows in each cell, [cells]."""
        return np.bincount(np.concatenate(list(self.cell.values())), minlength=self.cells)


def count_pairs(mask: Mask, axis: Axis) -> np.ndarray:
    """Pairs of the mask in each cell of its picture, [cells, cells]."""
    counts = np.zeros(axis.cells**2, dtype=np.int64)
    for region in mask.regions:
        query_cell, key_cell = axis.cell[region.queries], axis.cell[region.keys]
        if isinstance(region, Block):
            queries, many = _tally(query_cell, region.query_ids)
            keys, each = _tally(key_cell, region.key_ids)
            counts[np.add.outer(queries * axis.cells, keys)] += np.multiply.outer(many, each)
            continue
        for query, key in chunks(region, mask.layout):
            cells = query_cell[query.numpy()] * axis.cells + key_cell[key.numpy()]
            counts += np.bincount(cells, minlength=axis.cells**2)
    return counts.reshape(axis.cells, axis.cells)


def plot(mask: Mask, ax: Axes | None = None, cluster: Tensor | None = None) -> Axes:
    """Draw a mask: a cell is the darker, the more of its pairs are in the mask.

    Args:
        mask: Any mask.
        ax: Where to draw; None: a new figure.
        cluster: [N] the cluster of each real node; rows and columns follow it.

    Returns:
        The matplotlib Axes.
    """
    if cluster is not None and cluster.shape != (mask.layout.nodes,):
        raise UserError(
            f"A cluster vector of shape {tuple(cluster.shape)} for {mask.layout.nodes} nodes."
        )
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(figsize=(4.6, 5.0), layout="constrained")[1]
        ax.set_xlabel("keys: who is seen", fontsize=8, color=QUIET)
        ax.set_ylabel("queries: who sees", fontsize=8, color=QUIET)
    axis = Axis.of(mask.layout, cluster)
    outline = 0.6 if axis.cells <= OUTLINED else 0.0
    ax.pcolormesh(
        axis.edges,
        axis.edges,
        _colours(mask, axis),
        edgecolors=EMPTY,
        linewidth=outline,
        rasterized=True,
    )
    _mark_roles(ax, axis, mask.layout)
    ax.set_title(mask.name, loc="left", fontsize=9, fontweight="bold", pad=16)
    numbers = f"{mask.nnz:,} pairs, {100 * mask.density:.3g} %"
    ax.annotate(
        numbers,
        (0, 1),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=7.5,
        color=QUIET,
    )
    return ax


def gallery(
    data: Data, clusters: int | str | Tensor = "auto", hops: int = 2, virtual: int = 1
) -> Figure:
    """Draw all nine masks of the paper on one graph, a row a level, under one partition.

    Args:
        data: A graph with labels and a split (g3 looks at the training nodes).
        clusters: How many clusters METIS makes, "auto", or the cluster of each node, [N].
        hops: K of l1.
        virtual: Virtual nodes of g2.
    """
    from matplotlib import pyplot

    cluster = assign(data, clusters)
    offered = {"clusters": cluster, "hops": hops, "virtual": virtual}
    width = max(len(row) for row in GALLERY.values())
    figure = pyplot.figure(figsize=(10.5, 9.4))
    grid = figure.add_gridspec(
        len(GALLERY), width, left=0.08, right=0.98, top=0.94, bottom=0.08, wspace=0.2, hspace=0.5
    )
    for i, (level, row) in enumerate(GALLERY.items()):
        for j, (name, words) in enumerate(row.items()):
            mask = build_from(name, data, offered)
            ax = mask.plot(figure.add_subplot(grid[i, j]), cluster)
            ax.set_xlabel(words.format(hops=hops), fontsize=8)
            if j == 0:
                ax.set_ylabel(level, fontsize=13, labelpad=8)
    free = grid[0, len(GALLERY["local"])].get_position(figure)
    _explain(figure, free.x0, free.y1)
    return figure


def _order(size: int, cluster: Tensor | None) -> np.ndarray:
    """The place of each row among the rows of its role, [size]."""
    place = np.arange(size)
    if cluster is None:
        return place
    inverse = np.empty_like(place)
    inverse[torch.argsort(cluster.cpu(), stable=True).numpy()] = place
    return inverse


def _tally(cell: np.ndarray, ids: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """The cells in which rows fall, and how many in each."""
    counts = np.bincount(cell if ids is None else cell[ids.numpy()])
    taken = np.flatnonzero(counts)
    return taken, counts[taken]


def _colours(mask: Mask, axis: Axis) -> np.ndarray:
    """Red, green, blue and opacity of each cell, [cells, cells, 4]."""
    from matplotlib.colors import to_rgb

    counts, rows, virtual = count_pairs(mask, axis), axis.rows, axis.virtual
    share = counts / np.multiply.outer(rows, rows)
    colours = np.zeros((*counts.shape, 4))
    for (query, key), (colour, _) in COLOURS.items():
        colours[np.ix_(virtual == query, virtual == key)] = (*to_rgb(colour), 0)
    # The root lifts sparse cells, which would else all look alike.
    colours[..., 3] = np.where(counts > 0, FAINTEST + (1 - FAINTEST) * np.sqrt(share), 0)
    return colours


def _mark_roles(ax: Axes, axis: Axis, layout: Layout) -> None:
    """Label the roles on both sides, tint the strips of virtual rows, part them by thin lines."""
    for start, stop in list(axis.spans.values())[1:]:
        for strip in (ax.axvspan, ax.axhspan):
            strip(start, stop, color=VIRTUAL_STRIP, zorder=0)
        for line in (ax.axvline, ax.axhline):
            line(start, color=LINE, linewidth=0.6)
    middles = [(start + stop) / 2 for start, stop in axis.spans.values()]
    labels = [f"{layout.size(role):,}\n{role}" for role in axis.spans]
    ax.set_xticks(middles, labels, fontsize=7, color=QUIET)
    ax.set_yticks(middles, labels, fontsize=7, color=QUIET, rotation=90, va="center")
    ax.tick_params(length=0)
    ax.set(xlim=(0, 1), ylim=(1, 0), aspect="equal")
    for spine in ax.spines.values():
        spine.set(color=LINE, linewidth=0.6)


def _explain(figure: Figure, x: float, y: float) -> None:
    """Say how to read the pictures, from the point (x, y) of the figure down."""
    from matplotlib.patches import Patch

    figure.legend(
        handles=[Patch(color=colour, label=words) for colour, words in COLOURS.values()],
        title=HOW_TO_READ,
        loc="upper left",
        bbox_to_anchor=(x, y),
        borderaxespad=0,
        alignment="left",
        frameon=False,
        fontsize=8.5,
        title_fontsize=8.5,
        handlelength=1,
        handleheight=1,
        labelspacing=0.6,
    )
