"""The door to the benchmarks: find or fetch the files, parse them, check what came out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from m3dphormer.errors import UserError, unknown
from m3dphormer.graph.benchmarks.fetch import fetch_raw, find_raw, planned_source
from m3dphormer.graph.benchmarks.parsed import Parsed, array_hash, split_hash
from m3dphormer.graph.benchmarks.table import BENCHMARKS, Benchmark
from m3dphormer.graph.raw import RawGraph


def load_benchmark(name: str, root: str | Path | None = None, *, features: bool = True) -> RawGraph:
    """Load a benchmark from where its files are, or can be had, and check what was parsed.

    Args:
        name: One of ``BENCHMARKS``.
        root: The folder that raw files lie in; None: ``$M3DPHORMER_DATA``, else cache or download.
        features: False leaves ``x`` out, and does without the files that hold only features.

    Raises:
        UserError: Unknown name, files that cannot be had or read, or other arrays than published.
    """
    benchmark = get_benchmark(name)
    found = fetch_raw(benchmark.files(features=features), root)
    parsed = benchmark.parse(found.folder, features=features)
    _check(benchmark, parsed, found.folder)
    source, x, rule = found.source, parsed.x, benchmark.rule or parsed.splits
    assert rule is not None
    if x is not None and benchmark.hashes.x is None:
        source += ", features unverified"
    if x is not None and benchmark.stand_in:
        source += f"; {benchmark.stand_in}"
    if x is not None and benchmark.normalise:
        x = x / np.maximum(x.sum(axis=1, keepdims=True), 1.0)
    numbered = [str(label) for label in range(benchmark.numbers.classes)]
    return RawGraph(
        name=name,
        edges=parsed.edges,
        x=x,
        y=parsed.y,
        label_names=parsed.label_names or numbered,
        source=source,
        rule=rule,
        metric=benchmark.metric,
        need_features=features,
    )


def get_benchmark(name: str) -> Benchmark:
    """The benchmark of that name; an unknown one is a ``UserError`` that offers the nearest."""
    if name not in BENCHMARKS:
        raise unknown("dataset", name, BENCHMARKS)
    return BENCHMARKS[name]


def benchmark_source(name: str, root: str | Path | None = None) -> str:
    """In words, where ``load_benchmark`` would take the files from; nothing is downloaded."""
    benchmark = get_benchmark(name)
    plan = planned_source(benchmark.files(features=True), root)
    found = find_raw(benchmark.files(features=False), root)
    if found is not None and found.source != plan:
        plan += f" ({found.source} lack {', '.join(benchmark.feature_files)})"
    return f"{plan}; {benchmark.stand_in}" if benchmark.stand_in else plan


def _check(benchmark: Benchmark, parsed: Parsed, folder: Path) -> None:
    """Refuse arrays that are not those of the benchmark."""
    hashes, numbers = benchmark.hashes, benchmark.numbers
    right = {
        "edges": array_hash(parsed.edges) == hashes.edges,
        "labels": array_hash(parsed.y) == hashes.y,
    }
    if parsed.x is not None and hashes.x is not None:
        right["features"] = array_hash(parsed.x) == hashes.x
    elif parsed.x is not None:
        right["features"] = parsed.x.shape == (numbers.nodes, numbers.features)
    if parsed.splits is not None and hashes.splits is not None:
        right["splits"] = split_hash(parsed.splits) == hashes.splits
    for array, same in right.items():
        if not same:
            raise UserError(
                f"{benchmark.name}: the {array} in {folder} are not those of the benchmark; "
                "replace its files, or delete them to have them downloaded again."
            )
