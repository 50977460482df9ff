"""A run: one model on one graph over several seeds, in a folder that tells the whole story.

config.json, summary.json
seed0/  metrics.jsonl, model.json, graph.npz, weights.safetensors, predictions.csv
seed1/  ...
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph import class_count, load
from m3dphormer.graph.cache import write_atomically
from m3dphormer.training.classifier import NodeClassifier
from m3dphormer.training.files import write_json
from m3dphormer.training.forecast import check_fits
from m3dphormer.training.loop import Epoch
from m3dphormer.training.metrics import check_metric
from m3dphormer.training.settings import resolve


@dataclass(frozen=True)
class Summary:
    """Scores in percent, one a seed, at the epoch that validation chose."""

    dataset: str
    model: str
    metric: str
    mean: float
    std: float | None  # None for a single seed
    scores: list[float]
    seconds: float
    run: str
    source: str
    validation: list[float]
    epochs: list[int]
    seed_seconds: list[float]
    best_seed: int


def train(
    dataset: str,
    *,
    model: str = "m3dphormer",
    seeds: int = 5,
    settings: Mapping[str, Any] | None = None,
    root: str | None = None,
    out: str | None = None,
    metric: str | None = None,
    device: str = "cpu",
    verbose: bool = False,
    force: bool = False,
) -> Summary:
    """Train ``seeds`` times: run i is split i with initial seed i.

    Args:
        dataset: A known name or a path.
        settings: Settings of the model and of training.
        root: Where raw benchmark files lie.
        out: The run's folder; None: a new one under ``runs/``.
        force: Start even where the forecast says that memory will not suffice.
    """
    if seeds < 1:
        raise UserError(f"The 'seeds' parameter must be an int of at least 1. Got {seeds}.")
    settings = dict(settings or {})
    configs = resolve(model, settings)
    first = load(dataset, root=root)
    metric = check_metric(metric or first.metric, class_count(first))
    folder = _new_folder(out, f"{first.name}-{model}")
    if not force and device == "cpu":
        check_fits(model, configs[0], first)
    record = {
        "dataset": dataset,
        "source": first.source,
        "graph_hash": first.graph_hash,
        "model": model,
        "settings": {**asdict(configs[0]), **asdict(configs[1])},
        "metric": metric,
        "seeds": seeds,
        "device": device,
        "threads": torch.get_num_threads(),
        "versions": _versions(),
    }
    start = time.perf_counter()
    best: list[Epoch] = []
    took: list[float] = []
    for seed in range(seeds):
        data = first if seed == 0 else load(dataset, root=root, split=seed)
        clf = NodeClassifier(
            model, seed=seed, metric=metric, device=device, verbose=verbose, **settings
        )
        began = time.perf_counter()
        _train_seed(clf, data, folder, record)
        took.append(time.perf_counter() - began)
        best.append(clf.memory_.best)
    scores = [100 * epoch.test for epoch in best]
    validation = [100 * epoch.val for epoch in best]
    summary = Summary(
        dataset=first.name,
        model=model,
        metric=metric,
        mean=statistics.fmean(scores),
        std=statistics.stdev(scores) if seeds > 1 else None,
        scores=scores,
        seconds=time.perf_counter() - start,
        run=str(folder),
        source=first.source,
        validation=validation,
        epochs=[epoch.epoch for epoch in best],
        seed_seconds=took,
        best_seed=validation.index(max(validation)),
    )
    write_json(folder / "summary.json", asdict(summary))
    return summary


def _train_seed(clf: NodeClassifier, data: Data, folder: Path, record: Mapping[str, Any]) -> None:
    """Fit one seed; its folder appears with the first epoch, so a bad start leaves none."""
    place = folder / f"seed{clf.seed}"
    metrics = place / "metrics.jsonl"

    def log(epoch: Epoch) -> None:
        if epoch.epoch == 1:
            place.mkdir(parents=True)
            if clf.seed == 0:
                write_json(folder / "config.json", record)
        with metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(epoch)) + "\n")

    clf.fit(data, watch=log)
    clf.save(place)
    table = clf.predictions(data)
    write_atomically(
        place / "predictions.csv",
        lambda path: table.to_csv(path, index=False, float_format="%.6g"),
    )


def _new_folder(out: str | None, name: str) -> Path:
    if out is not None:
        folder = Path(out)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{out} exists and is not an empty folder; choose another --out.")
        return folder
    number = 1
    while (folder := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return folder


def _versions() -> dict[str, str]:
    packages = ("m3dphormer", "torch", "torch-geometric", "numpy", "pymetis")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
