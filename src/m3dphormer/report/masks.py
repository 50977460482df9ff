"""The masks of a run: a picture of each, and what the audit says about them."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.masks import Mask, build_from
from m3dphormer.masks.picture import GALLERY
from m3dphormer.report.run import SeedRun
from m3dphormer.theory import audit, audit_tables

AUDITED_NODES, AUDITED_EDGES = 10_000, 100_000  # up to which an audit takes a few seconds


@dataclass(frozen=True)
class Picture:
    """One mask, drawn."""

    name: str
    level: str
    words: str  # what it does; empty for a mask of the user's own
    pairs: int
    density: float
    image: str  # a data: address


@dataclass(frozen=True)
class Table:
    """A table of the audit, ready to print."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class MaskAudit:
    """What ``m3dphormer audit`` says."""

    labels: str
    known: int
    tables: tuple[Table, ...]
    advice: tuple[str, ...]


def draw_masks(data: Data, settings: Mapping[str, Any], cluster: Tensor | None) -> list[Picture]:
    """A picture of the mask of every expert.

    Args:
        data: With the training nodes of the seed that is drawn.
        settings: Of the run; without ``experts`` there is nothing to draw.
        cluster: [N] of that seed.
    """
    words = {name: text for row in GALLERY.values() for name, text in row.items()}
    offered = {"clusters": cluster, "self_loops": settings.get("cluster_self_loops", True)}
    pictures = []
    for name in settings.get("experts", ()):
        mask = build_from(name, data, offered)
        pictures.append(
            Picture(
                name=mask.name,
                level=mask.level,
                words=words.get(name, "").format(hops=2),
                pairs=mask.nnz,
                density=mask.density,
                image=_png(mask, cluster),
            )
        )
    return pictures


def audit_masks(data: Data, cluster: Tensor | None) -> MaskAudit:
    """The audit on the clusters of a run."""
    found = audit(data, clusters="auto" if cluster is None else cluster)
    tables = tuple(_table(title, rows) for title, rows in audit_tables(found).items())
    return MaskAudit(found.labels, found.known, tables, tuple(found.advice))


def is_small(data: Data) -> bool:
    """Whether the audit is cheap enough to be made unasked."""
    return int(data.num_nodes) <= AUDITED_NODES and int(data.num_edges) <= AUDITED_EDGES


def as_in(seed: SeedRun, data: Data) -> tuple[Data, Tensor | None]:
    """The graph with the split of a seed, and its clusters."""
    known, memory = data.clone(), seed.memory
    for part in ("train", "val", "test"):
        known[f"{part}_mask"] = torch.from_numpy(getattr(memory, part))
    return known, None if memory.cluster is None else torch.from_numpy(memory.cluster)


def _table(title: str, rows: pd.DataFrame) -> Table:
    cells = [
        tuple(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row)
        for row in rows.itertuples(index=False)
    ]
    return Table(title, tuple(map(str, rows.columns)), tuple(cells))


def _png(mask: Mask, cluster: Tensor | None) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.5, 3.6))
    ax = figure.add_axes((0.12, 0.09, 0.86, 0.86 * 3.5 / 3.6))
    mask.plot(ax, cluster).set_title("", loc="left")  # the page has its name
    written = io.BytesIO()
    figure.savefig(written, dpi=160, format="png")
    return "data:image/png;base64," + base64.b64encode(written.getvalue()).decode("ascii")
