"""The baselines' recipes: a search with the same number of trials for each, by validation alone.

``python benchmarks/recipes.py cora`` tunes every model but M3Dphormer, from its default settings
and from its present recipe, with the recipe's number of epochs; a training ends before them after
``--patience`` epochs without a better validation score, and no trial begins after ``--minutes`` of
a search. The best of a few trials on a few splits is often so by luck: it and the present recipe
are trained on ``--further`` splits for tuning, and the better one there becomes the recipe. Every
trial is a row of results/tune/budget/<dataset>.csv. A search that was ended goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

import m3dphormer as m3d
from m3dphormer.experiments.provenance import provenance
from m3dphormer.training.files import write_table
from m3dphormer.training.recipes import find_recipe, shipped_path, write_recipe
from m3dphormer.training.study import Ended
from m3dphormer.training.tune import Trainings, tune, tuning_runs
from m3dphormer.training.tuned import DEFAULTS, Tuned

TARGET = Path(__file__).resolve().parent.parent / "results" / "tune" / "budget"
OURS = "m3dphormer"
BUDGET = ("trials", "splits", "further", "patience", "minutes")  # the same for every model


def main() -> None:
    """Tune model after model; its recipe and rows are written as soon as its search is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--models", help="comma-separated; default: all baselines")
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--further", type=int, default=4)
    parser.add_argument("--patience", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10, help="no trial begins after that")
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--work", type=Path, default=Path("runs/recipes"), help="for the studies")
    given = parser.parse_args()
    origin = provenance()  # before the first recipe changes the checkout
    models = given.models.split(",") if given.models else m3d.list_models()
    budget = " ".join(f"--{name} {vars(given)[name]:g}" for name in BUDGET)
    for model in (name for name in models if name != OURS):
        epochs = find_recipe(None, model, given.dataset).settings.get("epochs", 200)
        began = time.perf_counter()
        tuned = tune(
            given.dataset,
            model=model,
            trials=given.trials,
            splits=given.splits,
            settings={"epochs": epochs, "patience": given.patience},
            root=given.root,
            minutes=given.minutes,
            out=str(given.work / given.dataset / model.replace("*", "-star")),
        )
        if tuned.interrupted:
            raise KeyboardInterrupt
        last = finalists(tuned)
        again = run_off(given.dataset, tuned, last, given.further, given.root)
        taken = max(again, key=lambda trial: again[trial]) if again else last[0].number
        adopt(tuned, taken, again)
        command = f"python benchmarks/recipes.py {tuned.dataset} --models {model} {budget}"
        record(tuned, again, {"command": command, **origin})
        print(
            f"{given.dataset}, {model}: {tuned.best.validation:.2f} by trial {tuned.best.number},"
            f" trial {taken} taken, {time.perf_counter() - began:.0f} s",
            flush=True,
        )


def finalists(tuned: Tuned) -> list[Ended]:
    """The trial of the present recipe, or of the defaults without one, and any that beats it."""
    present = _started(tuned, "recipe") or _started(tuned, DEFAULTS)
    if present is None:
        return [tuned.best]
    return [present] if present.validation == tuned.best.validation else [present, tuned.best]


def run_off(
    dataset: str, tuned: Tuned, last: list[Ended], further: int, root: str | None
) -> dict[int, float]:
    """Validation on further splits by trial; empty where there is nothing to decide."""
    if len(last) == 1:
        return {}
    data, splits = m3d.load(dataset, root=root), len(tuned.splits)
    offered = data.split_count - 5 if data.get("split_count") else splits + further
    runs = tuple(tuning_runs(data, min(splits + further, offered))[splits:])
    graphs = {split: m3d.load(dataset, root=root, split=split) for split, _ in runs}
    trial = Trainings(tuned.model, tuned.metric, "cpu", False, runs, graphs)
    return {
        one.number: 100 * trial.validation(one.settings, lambda step, score: None) for one in last
    }


def _started(tuned: Tuned, name: str) -> Ended | None:
    return next((trial for trial in tuned.trials if trial.start == name), None)


def adopt(tuned: Tuned, taken: int, again: Mapping[int, float]) -> None:
    """A trial as the recipe that comes with the package."""
    trial = next(one for one in tuned.trials if one.number == taken)
    splits = ", ".join(map(str, tuned.splits))
    comments = [
        f"{tuned.model} on {tuned.dataset}: trial {taken} of {len(tuned.trials)}, as many as",
        f"each baseline has (benchmarks/recipes.py, results/tune/budget/{tuned.dataset}.csv).",
        f"Validation {tuned.metric} {trial.validation:.2f} on split {splits}.",
    ]
    comments += [
        f"On further splits: {score:.2f} by trial {number}." for number, score in again.items()
    ]
    settings = {name: value for name, value in trial.settings.items() if name != "patience"}
    write_recipe(shipped_path(tuned.model, tuned.dataset), settings, comments)


def record(tuned: Tuned, again: Mapping[int, float], origin: Mapping[str, str]) -> None:
    """A row for each trial, in place of those of an earlier search."""
    rows = pd.DataFrame(
        {
            "dataset": tuned.dataset,
            "model": tuned.model,
            "trial": trial.number,
            "start": trial.start,
            "validation": trial.validation,
            "further": again.get(trial.number),
            "pruned": trial.pruned,
            "splits": " ".join(map(str, tuned.splits)),
            "seconds": round(trial.seconds, 1),
            "settings": json.dumps(trial.settings, sort_keys=True),
            **origin,
        }
        for trial in tuned.trials
    )
    target = TARGET / f"{tuned.dataset}.csv"
    target.parent.mkdir(exist_ok=True)
    if target.is_file():
        before = pd.read_csv(target)
        rows = pd.concat([before[before["model"] != tuned.model], rows])
    write_table(target, rows)


if __name__ == "__main__":
    main()
