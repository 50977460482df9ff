"""One process of a comparison: trains one model on some seeds, and tells of each as JSON on a line.

A process of its own, so that peak memory, threads and whatever else a model leaves behind are its
own; one for all seeds of a model, since to import the libraries takes seconds.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from m3dphormer.errors import UserError
from m3dphormer.graph import load
from m3dphormer.training.classifier import NodeClassifier
from m3dphormer.training.compare.runs import Row
from m3dphormer.training.forecast import check_fits
from m3dphormer.training.own_code import import_file
from m3dphormer.training.resident import peak_resident, reset_peak
from m3dphormer.training.settings import resolve

PR_SET_PDEATHSIG = 1  # of linux/prctl.h
TASK = ("dataset", "root", "model", "metric", "settings", "seeds")


def main() -> None:
    """Do what the JSON object in the first argument asks for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this
    _end_with_the_parent()
    warnings.simplefilter("ignore")  # the parent has loaded the graph, and told what there is
    task = json.loads(sys.argv[1])
    torch.set_num_threads(task["threads"])
    for row in rows(task):
        print(json.dumps(row), flush=True)


def _end_with_the_parent() -> None:
    """Nobody reads what is told once the parent was killed; only Linux can be asked for that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def rows(task: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each seed, with the columns of ``runs.NUMBERS``; the last may say ``failed``."""
    try:
        for path in task["imports"]:
            import_file(path)
        yield from _train(**{name: task[name] for name in TASK})
    except UserError as error:
        yield {"failed": str(error)}


def _train(
    dataset: str,
    root: str | None,
    model: str,
    metric: str,
    settings: dict[str, Any],
    seeds: list[int],
) -> Iterator[Row]:
    before: int | None = None
    for seed in seeds:
        data = load(dataset, root=root, split=seed)
        check_fits(model, resolve(model, settings)[0], data)
        now = _resident()
        before = now if before is None else before
        clf = NodeClassifier(model, seed=seed, metric=metric, **settings)
        began = time.perf_counter()
        clf.fit(data)
        seconds = time.perf_counter() - began
        yield {"seed": seed, "seconds": seconds, **_told(clf), "peak_mb": _peak_mb(before)}


def _told(clf: NodeClassifier) -> Row:
    best, history = clf.memory_.best, clf.history_
    return {
        "test": 100 * best.test,
        "validation": 100 * best.val,
        "best_epoch": best.epoch,
        "epochs": len(history),
        "seconds_per_epoch": history[-1].seconds / len(history),
        "parameters": sum(weight.numel() for weight in clf.model_.parameters()),
    }


def _resident() -> int | None:
    """What is resident before a training, its peak forgotten; None: the system cannot tell."""
    try:
        return reset_peak()
    except (OSError, AttributeError):
        return None


def _peak_mb(before: int | None) -> float | None:
    return None if before is None else (peak_resident() - before) / 1e6


if __name__ == "__main__":
    main()
