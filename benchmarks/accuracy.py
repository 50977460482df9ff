"""The paper's accuracy: trains M3Dphormer by its recipes, five seeds, into results/m3dphormer.csv.

Each row is what ``m3dphormer train NAME --seeds 5`` says; a run that was ended goes on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd

import m3dphormer as m3d
from m3dphormer.experiments.provenance import provenance
from m3dphormer.training.compare.paper import paper_score

GRAPHS = "cora,citeseer,pubmed,photo,computers,chameleon,squirrel,minesweeper"
SEEDS = 5
TARGET = Path(__file__).resolve().parent.parent / "results" / "m3dphormer.csv"


def main() -> None:
    """Train each graph; its row is replaced as soon as its seeds are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--graphs", default=GRAPHS, help="comma-separated")
    parser.add_argument("--runs", type=Path, default=Path("runs/accuracy"), help="for the runs")
    given = parser.parse_args()
    for name in given.graphs.split(","):
        row = train(name, given.root, given.runs / name)
        before = pd.read_csv(TARGET) if TARGET.is_file() else pd.DataFrame({"dataset": []})
        rows = pd.concat([before[before["dataset"] != name], pd.DataFrame([row])])
        rows["place"] = [GRAPHS.split(",").index(dataset) for dataset in rows["dataset"]]
        TARGET.parent.mkdir(exist_ok=True)
        rows.sort_values("place").drop(columns="place").to_csv(TARGET, index=False)
        print(f"{name}: {row['mean']} ± {row['std']}, z {row['z']}, {row['seconds']} s", flush=True)


def train(name: str, root: str | None, folder: Path) -> dict[str, object]:
    """All seeds of a graph, as a row."""
    found = m3d.train(name, seeds=SEEDS, root=root, out=str(folder), resume=True, verbose=True)
    paper = paper_score("m3dphormer", name)
    assert paper is not None
    results = [json.loads((folder / f"seed{i}" / "result.json").read_text()) for i in range(SEEDS)]
    settings = json.loads((folder / "config.json").read_text())["settings"]
    return {
        "dataset": name,
        "metric": found.metric,
        "mean": round(found.mean, 2),
        "std": round(found.std or 0.0, 2),
        "paper": paper.mean,
        "paper_std": paper.std,
        "z": round(paper.z(found.mean), 2),
        "scores": " ".join(f"{score:.2f}" for score in found.scores),
        "validation": " ".join(f"{score:.2f}" for score in found.validation),
        "epochs": settings["epochs"],
        "best_epochs": " ".join(map(str, found.epochs)),
        "seconds": round(found.seconds),
        "peak_mb": round(max(result["peak_bytes"] for result in results) / 1e6),
        "recipe": found.recipe,
        "command": f"m3dphormer train {name} --seeds {SEEDS}",
        **provenance(),
    }


if __name__ == "__main__":
    main()
