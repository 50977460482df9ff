"""ogbn-arxiv at full size: M3Dphormer against an MLP, every epoch into results/arxiv.csv.

The features are stand-ins, a language model's guesses of each paper's class, as a set (the graph
``ogbn-arxiv-candidates``) or in their order (``ogbn-arxiv-guesses``): the scores compare the two
networks with each other and with nothing published. A run that was ended goes on.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pandas as pd

import m3dphormer as m3d
from m3dphormer.experiments.provenance import provenance

GRAPHS = ("ogbn-arxiv-candidates", "ogbn-arxiv-guesses")
SETTINGS: dict[str, dict[str, object]] = {  # beside the recipe, where there is one
    "mlp": {"epochs": 200, "hidden": 256, "layers": 3, "lr": 0.005},
    "m3dphormer": {"epochs": 45},
}
TARGET = Path(__file__).resolve().parent.parent / "results" / "arxiv.csv"


def main() -> None:
    """Train each in a process of its own, whose peak is its own; its rows are replaced then."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--graph", choices=GRAPHS, default=GRAPHS[0])
    parser.add_argument("--models", default=",".join(SETTINGS), help="comma-separated")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="for the runs")
    given = parser.parse_args()
    for model in given.models.split(","):
        folder = given.runs / f"{given.graph}-{model}"
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            rows = alone.submit(train, given.graph, model, given.root, folder).result()
        before = pd.read_csv(TARGET) if TARGET.is_file() else rows.head(0)
        same = (before["graph"] == given.graph) & (before["model"] == model)
        pd.concat([before[~same], rows]).to_csv(TARGET, index=False)
        best = rows.loc[rows["val"].idxmax()]
        print(f"{model}: test {best['test']:.2f}, validation {best['val']:.2f}", flush=True)


def train(graph: str, model: str, root: str | None, folder: Path) -> pd.DataFrame:
    """A row for each epoch of one seed; scores in percent."""
    m3d.train(
        graph,
        model=model,
        seeds=1,
        settings=SETTINGS[model],
        root=root,
        out=str(folder),
        resume=True,
        verbose=True,
    )
    lines = (folder / "seed0" / "metrics.jsonl").read_text().splitlines()
    result = json.loads((folder / "seed0" / "result.json").read_text())
    rows = pd.DataFrame([json.loads(line) for line in lines])
    rows[["train", "val", "test"]] = (100 * rows[["train", "val", "test"]]).round(2)
    rows["seconds"], rows["loss"] = rows["seconds"].round(1), rows["loss"].round(4)
    rows.insert(0, "model", model)
    rows.insert(0, "graph", graph)
    rows["peak_mb"] = round(result["peak_bytes"] / 1e6)
    command = f"python benchmarks/arxiv.py --graph {graph} --models {model} --root DIR"
    return rows.assign(command=command, **provenance())


if __name__ == "__main__":
    main()
