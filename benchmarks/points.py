"""Settings tried by hand: validation scores on the splits for tuning, into results/tune/points.csv.

``python benchmarks/points.py squirrel --set hidden=256 --set epochs=400`` starts from the shipped
recipe (``--recipe none``: from the defaults) and adds a row. The splits are those of ``tune``,
never the reported ones, and test scores are not looked at. ``curve`` is the best validation score
so far after each tenth of the epochs: where it still climbs, more epochs may pay.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import fmean

import pandas as pd

import m3dphormer as m3d
from m3dphormer.experiments.provenance import provenance
from m3dphormer.training.loop import Epoch
from m3dphormer.training.recipes import find_recipe
from m3dphormer.training.settings import parse_settings, resolve
from m3dphormer.training.tune import tuning_runs

TARGET = Path(__file__).resolve().parent.parent / "results" / "tune" / "points.csv"


def main() -> None:
    """Train on each split, then add the row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--model", default="m3dphormer")
    parser.add_argument("--recipe", help="a file, or none; default: the shipped one")
    parser.add_argument("--set", action="append", default=[], metavar="key=value")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--target", type=Path, default=TARGET)
    given = parser.parse_args()
    recipe = find_recipe(given.recipe, given.model, given.dataset)
    settings = {**recipe.settings, **parse_settings(given.set)}
    epochs = resolve(given.model, settings)[1].epochs
    start, curves = time.perf_counter(), []
    runs = tuning_runs(m3d.load(given.dataset, root=given.root), given.splits)
    for split, seed in runs:
        curve: list[float] = []

        def look(epoch: Epoch, best: list[float] = curve) -> None:
            best.append(max([100 * epoch.val, *best[-1:]]))

        data = m3d.load(given.dataset, root=given.root, split=split)
        m3d.NodeClassifier(given.model, seed=seed, verbose=False, **settings).fit(data, look)
        curves.append(curve)
    step = max(epochs // 10, 1)
    row = {
        "dataset": given.dataset,
        "model": given.model,
        "validation": round(fmean(curve[-1] for curve in curves), 2),
        "splits": " ".join(str(split) for split, _ in runs),
        "each": " ".join(f"{curve[-1]:.2f}" for curve in curves),
        "curve": " ".join(
            f"{fmean(curve[min(at, len(curve) - 1)] for curve in curves):.1f}"
            for at in range(step - 1, epochs, step)
        ),
        "settings": json.dumps(settings, sort_keys=True),
        "seconds": round(time.perf_counter() - start),
        **provenance(),
    }
    print(
        row["dataset"], row["model"], row["validation"], row["curve"], row["settings"], flush=True
    )
    given.target.parent.mkdir(parents=True, exist_ok=True)
    first = not given.target.exists()
    pd.DataFrame([row]).to_csv(given.target, mode="a", header=first, index=False)


if __name__ == "__main__":
    main()
