"""Settings tried by hand: validation scores on the splits for tuning, into results/tune/points.csv.

``python benchmarks/points.py squirrel --set hidden=256 --set epochs=400`` starts from the shipped
recipe (``--recipe none``: from the defaults) and adds a row; ``--points FILE`` adds many. The
splits are those of ``tune``, never the reported ones, and test scores are not looked at. ``curve``
is the best validation score so far after each tenth of the epochs: where it still climbs, more
epochs may pay.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
from torch_geometric.data import Data

import m3dphormer as m3d
from m3dphormer.experiments.provenance import provenance
from m3dphormer.training.loop import Epoch
from m3dphormer.training.recipes import find_recipe
from m3dphormer.training.settings import parse_settings, resolve
from m3dphormer.training.tune import tuning_runs

Runs = Sequence[tuple[int, int]]
TARGET = Path(__file__).resolve().parent.parent / "results" / "tune" / "points.csv"


def main() -> None:
    """Train each point on each split; a row is added as soon as its point is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--model", default="m3dphormer")
    parser.add_argument("--recipe", help="a file, or none; default: the shipped one")
    parser.add_argument("--set", action="append", default=[], metavar="key=value")
    parser.add_argument("--points", type=Path, help="a file with a JSON object of settings a line")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--target", type=Path, default=TARGET)
    given = parser.parse_args()
    recipe = find_recipe(given.recipe, given.model, given.dataset)
    settings = {**recipe.settings, **parse_settings(given.set)}
    lines = ["{}"] if given.points is None else given.points.read_text().splitlines()
    runs = tuning_runs(m3d.load(given.dataset, root=given.root), given.splits)
    graphs = {split: m3d.load(given.dataset, root=given.root, split=split) for split, _ in runs}
    for line in lines:
        row = point(given.model, graphs, runs, {**settings, **json.loads(line)})
        print(row["validation"], row["curve"], row["seconds"], line, flush=True)
        given.target.parent.mkdir(parents=True, exist_ok=True)
        first = not given.target.exists()
        pd.DataFrame([row]).to_csv(given.target, mode="a", header=first, index=False)


def point(
    model: str, graphs: Mapping[int, Data], runs: Runs, settings: dict[str, Any]
) -> dict[str, Any]:
    """The row of one point.

    Args:
        graphs: The graph under each split.
        runs: Split and initial seed of each training.
    """
    epochs = resolve(model, settings)[1].epochs
    start, curves = time.perf_counter(), []
    for split, seed in runs:
        curve: list[float] = []

        def look(epoch: Epoch, best: list[float] = curve) -> None:
            best.append(max([100 * epoch.val, *best[-1:]]))

        clf = m3d.NodeClassifier(model, seed=seed, verbose=False, **settings)
        clf.fit(graphs[split], look)
        curves.append(curve)
    step = max(epochs // 10, 1)
    return {
        "dataset": graphs[runs[0][0]].name,
        "model": model,
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


if __name__ == "__main__":
    main()
