"""What a search tries: the paper's appendix, setting by setting.

A config field carries the values that are the same for every graph (``search=``). Here are those
that the appendix gives graph by graph, and how they are chosen for a graph it does not know.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.masks.partition import auto_clusters
from m3dphormer.models import model_type
from m3dphormer.models.settings import searched
from m3dphormer.training.settings import TrainConfig, resolve

Space = Mapping[str, tuple[Any, ...]]

SHALLOW, DEEP, DEEPEST = (2, 3, 4), (5, 6, 7), (10, 12, 15)
SMALL, LARGE = (96, 128, 160, 192), (160, 192, 224, 256)
M3DPHORMER: dict[str, Space] = {
    "cora": {"layers": SHALLOW, "clusters": SMALL},
    "citeseer": {"layers": SHALLOW, "clusters": SMALL},
    "pubmed": {"layers": SHALLOW, "clusters": LARGE},
    "photo": {"layers": SHALLOW, "clusters": LARGE},
    "computers": {"layers": DEEP, "clusters": LARGE},
    "chameleon": {"layers": SHALLOW, "clusters": (32, 64, 96, 128)},
    "squirrel": {"layers": DEEP, "clusters": SMALL},
    "minesweeper": {"layers": DEEPEST, "clusters": SMALL},
    "ogbn-arxiv": {"layers": DEEP, "clusters": (2048,), "norm": ("batch",)},
}


def search_space(model: str, data: Data, fixed: Collection[str] = ()) -> dict[str, tuple[Any, ...]]:
    """The values to try for each setting of a model on a graph.

    Args:
        fixed: Settings that are not searched.
    """
    space = {**searched(model_type(model).config_type), **searched(TrainConfig)}
    if model == "m3dphormer":
        space.update(M3DPHORMER.get(data.name) or _unknown_graph(int(data.num_nodes)))
    return {name: values for name, values in space.items() if name not in fixed}


def _unknown_graph(nodes: int) -> Space:
    """Few layers, and half, as many and twice as many clusters as "auto"."""
    usual = auto_clusters(nodes)
    clusters = sorted({max(1, usual // 2), usual, min(nodes, 2 * usual)})
    return {"layers": SHALLOW, "clusters": tuple(clusters)}


def combinations(space: Space, seed: int) -> Iterator[dict[str, Any]]:
    """All combinations of a space, in random order."""
    every = list(itertools.product(*space.values()))
    random.Random(seed).shuffle(every)
    return (dict(zip(space, values, strict=True)) for values in every)


def allowed(model: str, fixed: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool]:
    """A test of whether the configs take a combination: heads must divide hidden, and so on."""

    def takes(chosen: Mapping[str, Any]) -> bool:
        try:
            resolve(model, {**fixed, **chosen})
        except UserError:
            return False
        return True

    return takes
