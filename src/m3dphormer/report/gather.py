"""From a run's folder to plain numbers: all that the page shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph.homophily import edge_homophily
from m3dphormer.report.masks import MaskAudit, Picture, as_in, audit_masks, draw_masks, is_small
from m3dphormer.report.nodes import HardNode, LayerGates, degrees, hardest, homophily, layer_gates
from m3dphormer.report.run import Predictions, Run
from m3dphormer.report.scores import ClassScore, count_confusion, guess, interval, score_classes
from m3dphormer.training import NodeClassifier
from m3dphormer.training.loop import Epoch


@dataclass(frozen=True)
class SeedCost:
    """What one seed took."""

    seconds: float
    epochs: int
    per_epoch: float
    peak_bytes: int | None


@dataclass(frozen=True)
class GraphFacts:
    """The graph in numbers; an edge counts once."""

    nodes: int
    edges: int
    classes: int
    homophily: float
    test: int  # test nodes of a seed


@dataclass(frozen=True)
class Setting:
    """One setting of the run."""

    name: str
    value: str
    given: bool


@dataclass
class Report:
    """Everything on the page. What needs the graph is empty where it is not there any more.

    Args:
        guess: Mean score of always answering the most frequent class.
        confusion: Test nodes of all seeds by true and predicted class.
        missing: Why a part is left out, one sentence each.
    """

    dataset: str
    source: str
    model: str
    metric: str
    scores: list[float]
    mean: float
    std: float | None
    interval: tuple[float, float] | None
    best_seed: int
    histories: list[tuple[Epoch, ...]]
    best: list[Epoch]
    costs: list[SeedCost]
    settings: list[Setting]
    versions: dict[str, str]
    device: str
    threads: int
    command: str
    folder: str
    labels: tuple[str, ...]
    graph: GraphFacts | None = None
    guess: float | None = None
    confusion: np.ndarray | None = None
    classes: list[ClassScore] = field(default_factory=list)
    gate_names: tuple[str, ...] = ()
    gates: list[LayerGates] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    audit: MaskAudit | None = None
    hardest: list[HardNode] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def gather(folder: Path, root: str | None = None, *, audit: bool = False) -> Report:
    """Read a finished run, and its graph where it can still be loaded.

    Args:
        folder: Of the run.
        root: Where raw benchmark files lie.
        audit: Audit the masks also on a large graph.
    """
    run = Run.read(folder)
    report = _of_files(run)
    try:
        data = run.load_graph(root)
    except UserError as error:
        report.missing.append(
            f"What needs the graph is left out: {error} Bring it back, or name its folder with "
            "--root, and make the report again."
        )
        return report
    predictions = [seed.predictions() for seed in run.seeds]
    _add_scores(report, run, data, predictions)
    _add_nodes(report, run, data, predictions[report.best_seed])
    _add_masks(report, run, data, audit)
    return report


def _of_files(run: Run) -> Report:
    """What the folder alone tells."""
    config, summary = run.config, run.summary
    return Report(
        dataset=summary.dataset,
        source=summary.source,
        model=summary.model,
        metric=summary.metric,
        scores=summary.scores,
        mean=summary.mean,
        std=summary.std,
        interval=interval(summary.scores),
        best_seed=summary.best_seed,
        histories=[seed.history for seed in run.seeds],
        best=[seed.best for seed in run.seeds],
        costs=[
            SeedCost(
                seconds=seed.seconds,
                epochs=len(seed.history),
                per_epoch=seed.history[-1].seconds / len(seed.history),
                peak_bytes=seed.peak_bytes,
            )
            for seed in run.seeds
        ],
        settings=[
            Setting(name, _as_text(value), name in config["given"])
            for name, value in config["settings"].items()
        ],
        versions=config["versions"],
        device=config["device"],
        threads=config["threads"],
        command=reproduce(config),
        folder=str(run.folder),
        labels=run.best.memory.label_names,
    )


def _add_scores(report: Report, run: Run, data: Data, predictions: Sequence[Predictions]) -> None:
    y, count = data.y.numpy(), len(report.labels)
    report.graph = GraphFacts(
        nodes=int(data.num_nodes),
        edges=int(data.num_edges) // 2,
        classes=count,
        homophily=edge_homophily(data),
        test=int(run.best.memory.test.sum()),
    )
    splits = [(seed.memory.train & (y >= 0), seed.memory.test & (y >= 0)) for seed in run.seeds]
    guesses = [guess(y, train, test, report.metric, count) for train, test in splits]
    report.guess = float(np.mean(guesses))
    confusion = np.zeros((count, count), dtype=np.int64)
    for (_, test), said in zip(splits, predictions, strict=True):
        confusion += count_confusion(y[test], said.label[test], count)
    report.confusion = confusion
    report.classes = score_classes(confusion, report.labels)


def _add_nodes(report: Report, run: Run, data: Data, predictions: Predictions) -> None:
    degree, homophilous, gates = degrees(data), homophily(data), None
    try:
        classifier = NodeClassifier.load(run.best.place)
        if classifier.model_.gate_names:
            gates = classifier.gates(data)
            report.gate_names = classifier.model_.gate_names
            report.gates = [layer_gates(layer, degree, homophilous) for layer in gates]
    except UserError as error:
        report.missing.append(f"Gates are left out: {error}")
    test = run.best.memory.test & (data.y.numpy() >= 0)
    last = None if gates is None else gates[-1]
    report.hardest = hardest(predictions, data, test, homophilous, last)


def _add_masks(report: Report, run: Run, data: Data, audit: bool) -> None:
    known, cluster = as_in(run.best, data)
    try:
        report.pictures = draw_masks(known, run.config["settings"], cluster)
    except UserError as error:
        report.missing.append(f"The masks are left out: {error}")
    if audit or is_small(data):
        report.audit = audit_masks(known, cluster)
    else:
        report.missing.append(
            f"The audit of a graph of this size takes a while and is left out; to add it: "
            f"m3dphormer report {shlex.quote(str(run.folder))} --audit"
        )


def reproduce(config: Mapping[str, Any]) -> str:
    """The command that begins the same run."""
    words = ["m3dphormer", "train", config["dataset"], "--model", config["model"]]
    words += ["--seeds", str(config["seeds"]), "--metric", config["metric"]]
    for name, value in config["given"].items():
        words += ["--set", f"{name}={_as_text(value)}"]
    if config["device"] != "cpu":
        words += ["--device", config["device"]]
    return shlex.join(words)


def _as_text(value: object) -> str:
    """As ``--set`` would take it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
