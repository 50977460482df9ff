"""``tune``: search the settings of a model on a graph, by validation alone.

Trials train on other splits than those that are reported (0 to 4) wherever there are others: drawn
splits from number 100 up, or the files' splits from 5 up. A graph with one given split has no
other. Test scores are never looked at.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph import content_hash, load
from m3dphormer.models.settings import at_least, plain_settings, positive
from m3dphormer.training.classifier import NodeClassifier, find_device
from m3dphormer.training.forecast import check_fits
from m3dphormer.training.loop import Epoch
from m3dphormer.training.metrics import check_metric
from m3dphormer.training.recipes import find_recipe
from m3dphormer.training.settings import resolve
from m3dphormer.training.space import Space, allowed, search_space

try:
    from m3dphormer.training.study import Ended, Pruned, Question, Report, Search
    from m3dphormer.training.tuned import DEFAULTS, Tuned
except ModuleNotFoundError:
    raise UserError("tune needs the 'tune' extra: pip install 'm3dphormer[tune]'.") from None

REPORTED = 5  # splits 0 to 4 are for reported scores
FIRST_DRAWN = 100  # the first split drawn for tuning, and the first initial seed
EVERY = 10  # epochs between two looks at a trial


def tune(
    dataset: str,
    *,
    model: str = "m3dphormer",
    trials: int = 30,
    splits: int = 1,
    settings: Mapping[str, Any] | None = None,
    root: str | None = None,
    out: str | None = None,
    storage: str | None = None,
    study: str | None = None,
    minutes: float | None = None,
    metric: str | None = None,
    device: str = "cpu",
    verbose: bool = False,
    watch: Callable[[Ended], None] = lambda ended: None,
) -> Tuned:
    """Search, and write ``recipe.toml`` and ``trials.csv``; begun again, it goes on.

    Args:
        dataset: A known name or a path.
        trials: How many trials the study shall have, complete or pruned, whoever runs them.
        splits: How many splits each trial is trained on.
        settings: Settings that are fixed, and so not searched.
        root: Where raw benchmark files lie.
        out: Folder for what is written; None: ``tune/<dataset>-<model>``.
        storage: URL of a database that several machines share; None: ``study.db`` in ``out``.
        study: The study's name in the database; None: ``<dataset>-<model>``.
        minutes: No trial begins after so much time.
        verbose: Show a progress bar for each training when stderr is a terminal.
        watch: Called with every trial that ended in this process.
    """
    trials = at_least(1).check("trials", trials)
    splits = at_least(1).check("splits", splits)
    if minutes is not None:
        positive().check("minutes", minutes)
    find_device(device)
    settings = plain_settings(settings)
    config, training = resolve(model, settings)
    first = load(dataset, root=root)
    metric = check_metric(metric or first.metric, first)
    if device == "cpu":
        check_fits(model, config, first)
    runs = tuning_runs(first, splits)
    graphs = {split: load(dataset, root=root, split=split) for split, _ in runs}
    fixed = {**settings, "epochs": training.epochs}
    space = search_space(model, first, fixed)
    recipe = find_recipe(None, model, dataset)
    starts: dict[str, Mapping[str, Any]] = {DEFAULTS: {}}
    if recipe.name is not None:
        starts["recipe"] = recipe.settings
    question = Question(
        space=space,
        fixed=fixed,
        allowed=allowed(model, fixed),
        starts={name: _whole(model, {**start, **fixed}, space) for name, start in starts.items()},
        warmup=training.epochs * splits // 3,
    )
    folder = Path(out or f"tune/{first.name}-{model}")
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"model": model, "graph": content_hash(dataset, first), "metric": metric, "runs": runs}
    search = Search(
        storage or f"sqlite:///{folder / 'study.db'}",
        study or f"{first.name}-{model}",
        question,
        {**facts, "space": space, "fixed": fixed},
    )
    trial = Trainings(model, metric, device, verbose, tuple(runs), graphs)
    interrupted = False
    try:
        until = math.inf if minutes is None else time.monotonic() + 60 * minutes
        search.run(trial.validation, trials, watch, until)
    except KeyboardInterrupt:
        if not search.counted():
            raise
        interrupted = True
    tuned = Tuned(
        dataset=first.name,
        model=model,
        metric=metric,
        study=search.name,
        splits=[split for split, _ in runs],
        searched=list(space),
        trials=search.counted(),
        folder=folder,
        interrupted=interrupted,
    )
    tuned.write()
    return tuned


def tuning_runs(data: Data, splits: int) -> list[tuple[int, int]]:
    """Split and initial seed of each training of a trial.

    Args:
        data: The graph; ``split_count`` says how many splits came with it, if any.
        splits: How many trainings.
    """
    seeds = range(FIRST_DRAWN, FIRST_DRAWN + splits)
    given: int | None = data.split_count if "split_count" in data else None
    if given is None:
        return [(seed, seed) for seed in seeds]
    if given == 1:
        return [(0, seed) for seed in seeds]
    offered = range(REPORTED if given > REPORTED else 0, given)
    if splits > len(offered):
        raise UserError(
            f"The 'splits' parameter must be at most {len(offered)}, the splits of {data.name} "
            f"that are for tuning. Got {splits}."
        )
    return list(zip(offered, seeds, strict=False))


def _whole(model: str, settings: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Settings with the value of every searched one, so that a recipe says them all."""
    config, training = resolve(model, settings)
    values = {**asdict(config), **asdict(training)}
    return {**{name: values[name] for name in space}, **settings}


@dataclass(frozen=True)
class Trainings:
    """The trainings that a trial consists of.

    Args:
        runs: Split and initial seed of each.
        graphs: The graph under each split.
    """

    model: str
    metric: str
    device: str
    verbose: bool
    runs: tuple[tuple[int, int], ...]
    graphs: Mapping[int, Data]

    def validation(self, settings: Mapping[str, Any], report: Report) -> float:
        """Mean over the splits of the best validation score; prunes what cannot be trained."""
        try:
            if self.device == "cpu":
                check_fits(
                    self.model, resolve(self.model, settings)[0], self.graphs[self.runs[0][0]]
                )
            return self._mean_best(settings, report)
        except UserError as error:  # a loss that is not a number, or too little memory
            raise Pruned(str(error)) from None

    def _mean_best(self, settings: Mapping[str, Any], report: Report) -> float:
        best: list[float] = []
        for number, (split, seed) in enumerate(self.runs):
            best.append(0.0)

            def look(epoch: Epoch, before: int = number * int(settings["epochs"])) -> None:
                best[-1] = max(best[-1], epoch.val)
                if epoch.epoch % EVERY == 0:
                    report(before + epoch.epoch, statistics.fmean(best))

            clf = NodeClassifier(
                self.model,
                seed=seed,
                metric=self.metric,
                device=self.device,
                verbose=self.verbose,
                **settings,
            )
            clf.fit(self.graphs[split], look)
        return statistics.fmean(best)
