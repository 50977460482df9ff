"""One real run in a process of its own: ``python -m ...forecast.worker JSON`` prints JSON."""

from __future__ import annotations

import json
import statistics
import sys
from itertools import pairwise
from typing import Any

import torch

from m3dphormer.attention.planner.rates import clock
from m3dphormer.graph import load
from m3dphormer.training import NodeClassifier
from m3dphormer.training.resident import peak_resident, reset_peak


def main() -> None:
    """Train for a few epochs as the task in the first argument says."""
    task = json.loads(sys.argv[1])
    print(json.dumps(measure(**task)))


def measure(
    graph: str, root: str | None, threads: int, settings: dict[str, Any]
) -> dict[str, float]:
    """Peak above the imported package, and the median time of an epoch after the first two."""
    torch.set_num_threads(threads)
    before = reset_peak()
    data, ends = load(graph, root=root), list[float]()
    NodeClassifier(**settings).fit(data, lambda epoch: ends.append(clock()))
    taken = [after - ended for ended, after in pairwise(ends[1:])]
    return {"peak_bytes": peak_resident() - before, "seconds_per_epoch": statistics.median(taken)}


if __name__ == "__main__":
    main()
