"""The whole benchmark: which measurements, each in a fresh process, and the rows they give."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import pandas as pd

from m3dphormer.errors import UserError, unknown
from m3dphormer.experiments.bench import cases
from m3dphormer.models.settings import at_least, between

PARTS = ("attention", "epochs", "memory", "growth")
THREADS, HEAPS = (1, 2), tuple(cases.HEAPS)
GROWTH = range(12, 21)  # powers of two
Task = dict[str, Any]
LABELS = ("part", "graph", "nodes", "kind", "name", "heap", "threads")


def run_bench(
    graphs: Sequence[str],
    *,
    root: str | None = None,
    parts: Sequence[str] = PARTS,
    seconds: float = 10.0,
    threads: Sequence[int] = THREADS,
    heaps: Sequence[str] = HEAPS,
    watch: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """Measure and give one row for each form, graph and setting; times in seconds.

    Args:
        graphs: Names of graphs to measure on.
        root: Where raw benchmark files lie.
        parts: Which measurements.
        seconds: How long each timing goes on at least.
        threads, heaps: The settings that attention and epochs are timed in.
        watch: Told about every measurement before it starts.
    """
    for graph in graphs:
        cases.shape_of(graph)
    for part in parts:
        if part not in PARTS:
            raise unknown("part of the benchmark", part, PARTS)
    for heap in heaps:
        if heap not in HEAPS:
            raise unknown("heap of the benchmark", heap, HEAPS)
    for number in threads:
        at_least(1).check("threads", number)
    between(0, math.inf).check("seconds", seconds)
    settings = [{"heap": heap, "threads": number} for heap in heaps for number in threads]
    rows: list[Task] = []
    for task in _tasks(graphs, parts, settings, seconds):
        said: Task = {
            key: task[key] for key in ("part", "graph", "nodes", "kind", "name") if key in task
        }
        labels = said | {"heap": task["heap"], "threads": task["threads"]}
        watch(", ".join(map(str, labels.values())))
        rows += [{**labels, **row} for row in _measure({**task, "root": root})]
    return pd.DataFrame(rows).drop(columns="name", errors="ignore")


def _tasks(
    graphs: Sequence[str], parts: Sequence[str], settings: Sequence[Task], seconds: float
) -> Iterator[Task]:
    timing: Task = {"seconds": seconds, "repeats": 3}
    plain: Task = {"heap": "default", "threads": 2}
    for graph in graphs:
        for setting in settings:
            timed: Task = {"graph": graph, **setting, **timing}
            if "attention" in parts:
                for kind in cases.KINDS:
                    yield {"part": "attention", "kind": kind, **timed}
            if "epochs" in parts:
                yield {"part": "epochs", **timed}
        if "memory" in parts:
            for kind in cases.KINDS:
                for name in cases.forms(kind):
                    form: Task = {"graph": graph, "kind": kind, "name": name, **plain}
                    yield {"part": "attention memory", **form}
            for name in cases.EPOCHS:
                yield {"part": "epoch memory", "graph": graph, "name": name, **plain}
    if "growth" in parts:
        # A warm heap: glibc asks the system anew for what is past 32 MB, a step of its own.
        grown: Task = {"name": cases.OURS, "heap": "warm", "threads": 2}
        for graph, kind, power in product(cases.RANDOM_GRAPHS, cases.KINDS, GROWTH):
            size: Task = {"graph": graph, "nodes": 2**power, "kind": kind}
            yield {"part": "growth", **size, **grown, **timing, "seconds": min(seconds, 3.0)}


def _measure(task: Task) -> list[dict[str, Any]]:
    heap = cases.HEAPS[task.pop("heap")]
    done = subprocess.run(
        [sys.executable, "-m", "m3dphormer.experiments.bench.worker", json.dumps(task)],
        env={**os.environ, **heap},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UserError(f"The measurement {json.dumps(task)} failed: {last}")
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows
