"""The baselines' recipes: a search with the same number of trials for each, by validation alone.

``python benchmarks/recipes.py cora`` tunes every model but M3Dphormer, from its default settings
and from its present recipe, with the recipe's number of epochs; a training ends before them after
``--patience`` epochs without a better validation score, and no trial begins after ``--minutes`` of
a search. The best trial becomes the recipe, every trial a row of
results/tune/budget/<dataset>.csv. A search that was ended goes on.
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
from m3dphormer.training.tune import tune
from m3dphormer.training.tuned import Tuned

TARGET = Path(__file__).resolve().parent.parent / "results" / "tune" / "budget"
OURS = "m3dphormer"


def main() -> None:
    """Tune model after model; its recipe and rows are written as soon as its search is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--models", help="comma-separated; default: all baselines")
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--patience", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10, help="no trial begins after that")
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--work", type=Path, default=Path("runs/recipes"), help="for the studies")
    given = parser.parse_args()
    origin = provenance()  # before the first recipe changes the checkout
    models = given.models.split(",") if given.models else m3d.list_models()
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
        adopt(tuned)
        record(tuned, given.patience, origin)
        best = tuned.best
        print(
            f"{given.dataset}, {model}: {best.validation:.2f} by trial {best.number}"
            f" ({best.start or 'drawn'}), {time.perf_counter() - began:.0f} s",
            flush=True,
        )


def adopt(tuned: Tuned) -> None:
    """The best trial as the recipe that comes with the package."""
    best, splits = tuned.best, ", ".join(map(str, tuned.splits))
    before = [trial for trial in tuned.trials if trial.start == "recipe"]
    than = f"; the recipe before it: {before[0].validation:.2f}" if before else ""
    comments = [
        f"{tuned.model} on {tuned.dataset}: the best of {len(tuned.trials)} trials, as many as",
        f"each baseline has (benchmarks/recipes.py, results/tune/budget/{tuned.dataset}.csv).",
        f"Validation {tuned.metric} {best.validation:.2f} on split {splits}{than}.",
    ]
    settings = {name: value for name, value in best.settings.items() if name != "patience"}
    write_recipe(shipped_path(tuned.model, tuned.dataset), settings, comments)


def record(tuned: Tuned, patience: int, origin: Mapping[str, str]) -> None:
    """A row for each trial, in place of those of an earlier search."""
    rows = pd.DataFrame(
        {
            "dataset": tuned.dataset,
            "model": tuned.model,
            "trial": trial.number,
            "start": trial.start,
            "validation": trial.validation,
            "pruned": trial.pruned,
            "splits": " ".join(map(str, tuned.splits)),
            "seconds": round(trial.seconds, 1),
            "settings": json.dumps(trial.settings, sort_keys=True),
            "command": f"python benchmarks/recipes.py {tuned.dataset} --models {tuned.model} "
            f"--trials {len(tuned.trials)} --splits {len(tuned.splits)} --patience {patience}",
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
