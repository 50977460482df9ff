"""What the runs of several models say: each model's score, its distance to the best, its cost.

The best is chosen by validation; the differences to it are those of test scores, split by split.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from scipy.stats import rankdata
from torch_geometric.data import Data

from m3dphormer.training.compare.paired import corrected_test, holm
from m3dphormer.training.compare.paper import paper_score
from m3dphormer.training.compare.runs import Row

Gap = tuple[float, tuple[float, float] | None, float | None]  # difference, interval, p


@dataclass(frozen=True)
class Compared:
    """One model: scores in percent, and its difference to the model that validation prefers.

    Args:
        rank: Mean over the splits of its place by test score, 1 for the best.
        difference: Its mean test score less that of the preferred model; None for that model.
        interval: 95 % of the difference; None also where the seeds give it no spread, such as one.
        p: Of the difference, by Holm's rule for all differences.
        paper: Mean and standard deviation in the paper's Table 2.
        z: How many of the paper's standard deviations the mean lies above the paper's.
    """

    dataset: str
    model: str
    metric: str
    mean: float
    std: float | None
    scores: list[float]
    validation: list[float]
    rank: float
    seconds: float
    seconds_per_epoch: float
    parameters: int
    peak_mb: float | None
    recipe: str | None
    run: str
    difference: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    paper: tuple[float, float] | None = None
    z: float | None = None


@dataclass(frozen=True)
class Comparison:
    """All models, by mean test score."""

    dataset: str
    metric: str
    seeds: int
    best: str
    models: list[Compared]


def verdict(data: Data, metric: str, rows: Mapping[str, Sequence[Row]], folder: str) -> Comparison:
    """Compare models that have a row for each of the same seeds.

    Args:
        data: The graph under one of its splits, for the sizes of its parts.
        rows: Of each model, by seed.
        folder: Where they are kept.
    """
    best = max(rows, key=lambda model: statistics.fmean(row["validation"] for row in rows[model]))
    tests = {model: [row["test"] for row in given] for model, given in rows.items()}
    seeds = len(tests[best])
    places = rankdata([[-score for score in scores] for scores in tests.values()], axis=0)
    ranks = dict(zip(tests, places.mean(axis=1).tolist(), strict=True))
    gaps = _gaps(tests, best, int(data.test_mask.sum()) / int(data.train_mask.sum()))
    models = []
    for model, given in rows.items():
        mean = statistics.fmean(tests[model])
        std = statistics.stdev(tests[model]) if seeds > 1 else None
        difference, interval, p = gaps.get(model, (None, None, None))
        printed = paper_score(model, data.name)
        peaks = [row["peak_mb"] for row in given if row["peak_mb"] is not None]
        models.append(
            Compared(
                dataset=data.name,
                model=model,
                metric=metric,
                mean=mean,
                std=std,
                scores=tests[model],
                validation=[row["validation"] for row in given],
                rank=ranks[model],
                seconds=sum(row["seconds"] for row in given),
                seconds_per_epoch=statistics.median(row["seconds_per_epoch"] for row in given),
                parameters=given[0]["parameters"],
                peak_mb=max(peaks, default=None),
                recipe=given[0]["recipe"] or None,
                run=folder,
                difference=difference,
                interval=interval,
                p=p,
                paper=None if printed is None else (printed.mean, printed.std),
                z=None if printed is None else printed.z(mean),
            )
        )
    models.sort(key=lambda one: -one.mean)
    return Comparison(data.name, metric, seeds, best, models)


def _gaps(
    tests: Mapping[str, Sequence[float]], best: str, test_over_train: float
) -> dict[str, Gap]:
    """Of every model but the best."""
    pairs = {
        model: [score - other for score, other in zip(scores, tests[best], strict=True)]
        for model, scores in tests.items()
        if model != best
    }
    if len(tests[best]) < 2:
        return {model: (given[0], None, None) for model, given in pairs.items()}
    found = {model: corrected_test(given, test_over_train) for model, given in pairs.items()}
    # A test that says nothing is still one of the family.
    ps = holm([1.0 if one is None else one.p for one in found.values()])
    gaps: dict[str, Gap] = {}
    for (model, one), p in zip(found.items(), ps, strict=True):
        if one is None:
            gaps[model] = (statistics.fmean(pairs[model]), None, None)
        else:
            gaps[model] = (one.difference, (one.low, one.high), p)
    return gaps


def comparison_table(found: Comparison) -> pd.DataFrame:
    """For a reader: one row a model, a dash where there is nothing to say."""
    rows = []
    for one in found.models:
        mean = f"{one.mean:.2f}" + ("" if one.std is None else f" ± {one.std:.2f}")
        paper = "-" if one.paper is None else "{:.2f} ± {:.2f}".format(*one.paper)
        low_high = "-" if one.interval is None else "{:+.2f} to {:+.2f}".format(*one.interval)
        rows.append(
            {
                "model": one.model,
                found.metric: mean,
                "validation": f"{statistics.fmean(one.validation):.2f}",
                "rank": f"{one.rank:.1f}",
                f"to {found.best}": "-" if one.difference is None else f"{one.difference:+.2f}",
                "95 % interval": low_high,
                "p (Holm)": _shown(one.p),
                "paper": paper,
                "z": "-" if one.z is None else f"{one.z:+.1f}",
                "parameters": f"{one.parameters:,}",
                "s / epoch": f"{one.seconds_per_epoch:.3f}",
                "peak MB": "-" if one.peak_mb is None else f"{one.peak_mb:.0f}",
            }
        )
    return pd.DataFrame(rows)


def _shown(p: float | None) -> str:
    """Three digits; a small one is never shown as 0."""
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"
