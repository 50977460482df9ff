"""The whole benchmark: which measurements, each in a fresh process, and the rows they give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from m3dphormer.errors import UserError, unknown
from m3dphormer.experiments.bench import cases

PARTS = ("attention", "epochs", "memory", "growth")
GROWTH = range(12, 21)  # powers of two
Task = dict[str, Any]
LABELS = ("part", "graph", "nodes", "kind", "name", "heap", "threads")


def run_bench(
    graphs: Sequence[str],
    *,
    root: str | None = None,
    parts: Sequence[str] = PARTS,
    seconds: float = 10.0,
    watch: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """Measure and give one row for each form, graph and setting; times in seconds.

    Args:
        graphs: Names of graphs to measure on.
        root: Where raw benchmark files lie.
        parts: Which measurements.
        seconds: How long each timing goes on at least.
        watch: Told about every measurement before it starts.
    """
    for graph in graphs:
        cases.shape_of(graph)
    for part in parts:
        if part not in PARTS:
            raise unknown("part of the benchmark", part, PARTS)
    rows: list[Task] = []
    for task in _tasks(graphs, parts, seconds):
        said: Task = {
            key: task[key] for key in ("part", "graph", "nodes", "kind", "name") if key in task
        }
        labels = said | {"heap": task["heap"], "threads": task["threads"]}
        watch(", ".join(map(str, labels.values())))
        rows += [{**labels, **row} for row in _measure({**task, "root": root})]
    return pd.DataFrame(rows).drop(columns="name", errors="ignore")


def _tasks(graphs: Sequence[str], parts: Sequence[str], seconds: float) -> Iterator[Task]:
    timing: Task = {"seconds": seconds, "repeats": 3}
    plain: Task = {"heap": "default", "threads": 2}
    for graph in graphs:
        for heap in cases.HEAPS:
            for threads in (1, 2):
                setting: Task = {"graph": graph, "heap": heap, "threads": threads, **timing}
                if "attention" in parts:
                    for kind in cases.KINDS:
                        yield {"part": "attention", "kind": kind, **setting}
                if "epochs" in parts:
                    yield {"part": "epochs", **setting}
        if "memory" in parts:
            for kind in cases.KINDS:
                for name in cases.forms(kind):
                    setting = {"graph": graph, "kind": kind, "name": name, **plain}
                    yield {"part": "attention memory", **setting}
            for name in cases.EPOCHS:
                yield {"part": "epoch memory", "graph": graph, "name": name, **plain}
    if "growth" in parts:
        for kind in cases.KINDS:
            for power in GROWTH:
                size = {"nodes": 2**power, "kind": kind, "name": cases.OURS}
                yield {
                    "part": "growth",
                    **size,
                    **plain,
                    "seconds": min(seconds, 3.0),
                    "repeats": 3,
                }


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
