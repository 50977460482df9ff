"""A run: one model on one graph over several seeds, in a folder that tells the whole story.

config.json, summary.json; report.html, by the command
seed0/  metrics.jsonl, model.json, graph.npz, weights.safetensors, predictions.csv, result.json;
        until result.json is there, two checkpoints to go on from
seed1/  ...
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from m3dphormer.errors import UserError, notice
from m3dphormer.graph import check_seeds, load
from m3dphormer.models.settings import at_least, between, plain_settings, positive
from m3dphormer.training.alone import Alone, BeingTrained
from m3dphormer.training.checkpoint import Checkpoint
from m3dphormer.training.classifier import NodeClassifier
from m3dphormer.training.files import (
    as_record,
    is_empty,
    read_json,
    sweep,
    write_json,
    write_table,
)
from m3dphormer.training.forecast import check_fits
from m3dphormer.training.loop import Epoch
from m3dphormer.training.metrics import check_metric
from m3dphormer.training.recipes import find_recipe
from m3dphormer.training.resident import peak_resident
from m3dphormer.training.resume import find_run
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
    recipe: str | None = None


def train(
    dataset: str,
    *,
    model: str = "m3dphormer",
    seeds: int | None = None,
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    root: str | None = None,
    out: str | None = None,
    metric: str | None = None,
    device: str = "cpu",
    verbose: bool = False,
    resume: bool = False,
    minutes: float | None = None,
    checkpoint: float = 5.0,
    force: bool = False,
) -> Summary:
    """Train ``seeds`` times (5): run i is split i with initial seed i.

    Args:
        dataset: A known name or a path.
        recipe: A TOML file with settings; "none": plain defaults; None: the recipe that comes with
            the package for this model and dataset, where there is one.
        settings: Settings of the model and of training, above those of the recipe.
        root: Where raw benchmark files lie.
        out: The run's folder; None: a new one under ``runs/``.
        resume: Go on with a run that was begun in or under ``out``, and take from it what is not
            given here; where there is none, begin one.
        minutes: Time for the whole run, shared among its seeds; each trains one epoch at least.
        checkpoint: Seconds of training between two checkpoints.
        force: Start even where the forecast says that memory will not suffice.
    """
    if seeds is not None:
        seeds = at_least(1).check("seeds", seeds)
    if minutes is not None:
        positive().check("minutes", minutes)
    between(0, math.inf).check("checkpoint", checkpoint)
    found = find_recipe(recipe, model, dataset)
    settings = plain_settings(settings)
    if not resume:
        resolve(model, {**found.settings, **settings})  # told before a download
    first = load(dataset, root=root)
    begun = find_run(out, model, first.graph_hash) if resume else None
    given = {} if begun is None else begun.record["given"]
    if begun is None or recipe is not None:
        given = {**given, **found.settings}
    settings = {**given, **settings}
    if begun is not None:
        seeds = begun.record["seeds"] if seeds is None else seeds
        metric = metric or begun.record["metric"]
    seeds = 5 if seeds is None else seeds
    check_seeds(first, seeds)
    configs = resolve(model, settings)
    metric = check_metric(metric or first.metric, first)
    if not force and device == "cpu":
        check_fits(model, configs[0], first)
    record: dict[str, Any] = {
        "dataset": dataset,
        "source": first.source,
        "graph_hash": first.graph_hash,
        "task_hash": first.task_hash,
        "model": model,
        "recipe": found.name,
        "settings": {**asdict(configs[0]), **asdict(configs[1])},
        "given": settings,
        "metric": metric,
        "seeds": seeds,
        "device": device,
        "threads": torch.get_num_threads(),
        "versions": _versions(),
    }
    if begun is None:
        folder = _new_folder(out, f"{first.name}-{model.replace('*', '-star')}")
        if resume:
            notice(
                f"No run of {model} on {first.name} to go on with; a new one begins in {folder}."
            )
    else:
        folder, record = begun.folder, begun.go_on(record)
        if begun.finished:
            summary = read_summary(folder)
            notice(f"{folder} is finished; nothing is left to do.")
            return summary
    with _told_how_to_go_on(folder), Alone(folder) as alone:
        if begun is not None:
            alone.take()
            sweep(folder)
        best: list[Epoch] = []
        took: list[float] = []
        for seed in range(seeds):
            place = folder / f"seed{seed}"
            kept = Checkpoint(place, checkpoint)
            if not (place / "result.json").is_file():
                clf = NodeClassifier(
                    model,
                    seed=seed,
                    metric=metric,
                    device=device,
                    verbose=verbose,
                    **record["given"],
                )
                data = first if seed == 0 else load(dataset, root=root, split=seed)
                left = math.inf if minutes is None else (60 * minutes - sum(took)) / (seeds - seed)
                _train_seed(clf, data, alone, record, kept, left)
            kept.remove()
            epoch, result = read_result(place)
            best.append(epoch)
            took.append(result["seconds"])
        summary = _summary(first, record, folder, best, took)
        write_json(folder / "summary.json", asdict(summary))
    return summary


def read_summary(folder: Path) -> Summary:
    """Of a finished run."""
    path = folder / "summary.json"
    return as_record(Summary, read_json(path), path)


def read_result(place: Path) -> tuple[Epoch, dict[str, Any]]:
    """The best epoch of a seed that is done, and what else its record tells."""
    path = place / "result.json"
    result = read_json(path, "best", "seconds")
    return as_record(Epoch, result["best"], path), result


def _summary(
    data: Data, record: Mapping[str, Any], folder: Path, best: list[Epoch], took: list[float]
) -> Summary:
    scores = [100 * epoch.test for epoch in best]
    validation = [100 * epoch.val for epoch in best]
    return Summary(
        dataset=data.name,
        model=record["model"],
        metric=record["metric"],
        mean=statistics.fmean(scores),
        std=statistics.stdev(scores) if len(scores) > 1 else None,
        scores=scores,
        seconds=sum(took),
        run=str(folder),
        source=data.source,
        validation=validation,
        epochs=[epoch.epoch for epoch in best],
        seed_seconds=took,
        best_seed=validation.index(max(validation)),
        recipe=record.get("recipe"),
    )


def _train_seed(
    clf: NodeClassifier,
    data: Data,
    alone: Alone,
    record: Mapping[str, Any],
    checkpoint: Checkpoint,
    seconds: float,
) -> None:
    """Fit one seed, or go on with it; its folder appears with the first epoch."""
    folder = alone.folder
    place = folder / f"seed{clf.seed}"
    metrics = place / "metrics.jsonl"

    def log(epoch: Epoch) -> None:
        if epoch.epoch == 1:
            if not (folder / "config.json").is_file():
                write_json(folder / "config.json", record)
            alone.take()
            place.mkdir(exist_ok=True)
        with metrics.open("w" if epoch.epoch == 1 else "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(epoch)) + "\n")

    began = time.perf_counter()
    try:
        clf.fit(data, log, checkpoint, seconds)
    except (UserError, KeyboardInterrupt) as error:
        if isinstance(error, BeingTrained) or not hasattr(clf, "memory_"):
            raise
        _save_seed(clf, data, place)
        what = str(error).rstrip(".") or f"interrupted after epoch {len(clf.history_)}"
        best = f"the weights of epoch {clf.memory_.best.epoch}, the best, are in {place}"
        raise type(error)(f"{what}; {best}") from None
    _save_seed(clf, data, place)
    took = checkpoint.seconds + time.perf_counter() - began
    result = {"best": asdict(clf.memory_.best), "seconds": took, "peak_bytes": peak_resident()}
    write_json(place / "result.json", result)


@contextmanager
def _told_how_to_go_on(folder: Path) -> Iterator[None]:
    """Ctrl-C, and a disk that is full or broken, in one line with the way on."""
    way_on = f"go on with --resume --out {folder}"
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"{str(error) or 'interrupted'}; {way_on}") from None
    except OSError as error:
        where = error.filename or folder
        raise UserError(f"{where}: {error.strerror}; mend that, then {way_on}.") from None


def _save_seed(clf: NodeClassifier, data: Data, place: Path) -> None:
    """The classifier and its predictions."""
    clf.save(place)
    write_table(place / "predictions.csv", clf.predictions(data))


def _new_folder(out: str | None, name: str) -> Path:
    if out is not None:
        folder = Path(out)
        if folder.exists() and not (folder.is_dir() and is_empty(folder)):
            raise UserError(f"{out} exists and is not an empty folder; choose another --out.")
        return folder
    number = 1
    while (folder := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return folder


def _versions() -> dict[str, str]:
    packages = ("m3dphormer", "torch", "torch-geometric", "numpy", "pymetis")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
