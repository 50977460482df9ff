"""The plan and the forecast of a run, before it starts, and the refusal of what cannot fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pandas as pd
import torch
from torch_geometric.data import Data

from m3dphormer.attention import DEFAULT_SCHEME, SCHEMES
from m3dphormer.attention.planner import (
    PlannedRegion,
    Rates,
    Work,
    available_memory,
    machine_rates,
    peak,
    seconds,
)
from m3dphormer.errors import UserError
from m3dphormer.graph import class_count, load
from m3dphormer.models import Model, ModelConfig, model_type
from m3dphormer.theory.cost import dense_transformer_bytes
from m3dphormer.training.recipes import find_recipe
from m3dphormer.training.settings import resolve

IN_TRAINING = 4  # a weight, its gradient, and Adam's two moments
FIRST_USE = 35_000_000  # bytes that libraries take on first use: threads, buffers, the heap's slack


@dataclass(frozen=True)
class Forecast:
    """What a run will take under one scheme.

    Args:
        peak_bytes: Memory at the height of a training step, above that of the imported package.
        seconds_per_epoch: A training step and an evaluation.
        fits: Whether the memory is there.
    """

    peak_bytes: int
    seconds_per_epoch: float
    fits: bool


@dataclass(frozen=True)
class Plan:
    """How the masks are computed, and a forecast for each scheme; none for a model without.

    Args:
        dense_transformer_bytes: For comparison, what one dense mask of as many layers and heads
            takes in plain PyTorch, as the paper's introduction counts it.
    """

    dataset: str
    model: str
    available_bytes: int
    schemes: dict[str, Forecast]
    regions: list[PlannedRegion]
    recipe: str | None
    dense_transformer_bytes: int


def plan(
    dataset: str | Data,
    *,
    model: str = "m3dphormer",
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    root: str | None = None,
    rates: Rates | None = None,
) -> Plan:
    """Plan and forecast of training a model on a graph; nothing is trained.

    Args:
        dataset: A known name, a path, or a graph from ``m3d.load``.
        recipe: As for ``train``.
        settings: Settings of the model and of training, above those of the recipe.
        root: Where raw benchmark files lie.
        rates: How fast the machine is, where it is not to be measured.
    """
    found = find_recipe(recipe, model, dataset if isinstance(dataset, str) else "")
    config, _ = resolve(model, {**found.settings, **(settings or {})})
    data = load(dataset, root=root) if isinstance(dataset, str) else dataset
    free = available_memory()
    network = _weightless(model, config, data)
    graph, schemes = network.prepare(data), {}
    for scheme in SCHEMES:
        works = network.works(graph, data, scheme)
        if works is not None:
            most, taken = _bytes(works), seconds(works, rates or machine_rates())
            schemes[scheme] = Forecast(most, taken, most <= free)
    sizes = {name: getattr(config, name, 1) for name in ("layers", "heads")}
    dense = dense_transformer_bytes(int(data.num_nodes), **sizes)
    return Plan(data.name, model, free, schemes, network.regions(graph), found.name, dense)


def plan_tables(found: Plan) -> dict[str, pd.DataFrame]:
    """The plan as tables for people, by title."""
    regions = [_row(alike) for alike in _alike(found.regions)]
    schemes = [
        {
            "scheme": name,
            "peak memory": said(forecast.peak_bytes),
            "s / epoch": forecast.seconds_per_epoch,
            "fits": "yes" if forecast.fits else "no",
        }
        for name, forecast in found.schemes.items()
    ]
    return {"Regions": pd.DataFrame(regions), "Forecast": pd.DataFrame(schemes)}


def _alike(regions: list[PlannedRegion]) -> Iterator[list[PlannedRegion]]:
    """Neighbours of one mask that differ in size alone, such as one region a class."""
    for _, same in groupby(regions, key=lambda r: (r.mask, r.queries, r.keys, r.dual)):
        yield list(same)


def _row(regions: list[PlannedRegion]) -> dict[str, object]:
    first, times = regions[0], f"{len(regions)} of " if len(regions) > 1 else ""
    sizes = sorted({region.columns for region in regions})
    columns = sizes if len(sizes) < 2 else [sizes[0], sizes[-1]]
    return {
        "mask": first.mask,
        "queries": first.queries,
        "keys": first.keys,
        "shape": f"{times}{first.rows:,} x {' to '.join(f'{number:,}' for number in columns)}",
        "density": sum(r.nnz for r in regions) / sum(r.rows * r.columns for r in regions),
        "1/(3 d_h)": first.threshold,
        "dual": first.dual,
        "fused": first.fused,
        "why fused": first.why["fused"],
    }


def check_fits(model: str, config: ModelConfig, data: Data) -> None:
    """Refuse a run whose forecast is more than the memory that is there."""
    free, scheme = available_memory(), getattr(config, "scheme", DEFAULT_SCHEME)
    needed = _peak(model, config, data, scheme)
    if needed <= free:
        return
    smaller = next(
        (
            words
            for words, other in _ways_out(config)
            if _peak(model, other, data, getattr(other, "scheme", scheme)) <= free
        ),
        "Take a smaller graph or a larger machine",
    )
    how = f" with scheme {scheme}" if hasattr(config, "scheme") else ""
    raise UserError(
        f"{model} on {data.name}{how} would need {said(needed)} of memory, "
        f"{said(free)} are available. {smaller}, or --force to start anyway."
    )


def _ways_out(config: ModelConfig) -> Iterator[tuple[str, ModelConfig]]:
    """Settings that need less, the least change first."""
    if hasattr(config, "scheme"):
        for scheme in SCHEMES:
            if scheme != config.scheme:
                yield f"Take --set scheme={scheme}", _with(config, scheme=scheme)
        config = _with(config, scheme=DEFAULT_SCHEME)
    width, heads = config.hidden, getattr(config, "heads", 1)
    while (width := width // 2) >= heads and width % heads == 0:
        words = f"Take --set hidden={width}"
        if hasattr(config, "scheme"):
            words += f" --set scheme={DEFAULT_SCHEME}"
        yield words, _with(config, hidden=width)


def _with(config: ModelConfig, **changed: Any) -> ModelConfig:
    return replace(config, **changed)


def _peak(model: str, config: ModelConfig, data: Data, scheme: str) -> int:
    """The forecast; of a model without one what its weights alone take in training."""
    network = _weightless(model, config, data)
    if type(network).works is not Model.works:
        works = network.works(network.prepare(data), data, scheme)
        if works is not None:
            return _bytes(works)
    return IN_TRAINING * sum(weight.nbytes for weight in network.parameters())


def _bytes(works: list[Work]) -> int:
    return FIRST_USE + round(peak(works))


def _weightless(model: str, config: ModelConfig, data: Data) -> Model:
    """The network with sizes for weights: one that cannot fit must not be built to be refused."""
    with torch.device("meta"):
        return model_type(model)(int(data.num_features), class_count(data), config)


def said(number: float) -> str:
    """A number of bytes for people."""
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"
