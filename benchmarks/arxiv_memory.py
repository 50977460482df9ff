"""Memory and time of training at ogbn-arxiv's size: its edges, labels and split, random features.

Writes results/arxiv_memory.csv: the peak of resident memory above the state before the graph is
loaded, and the seconds of an epoch, by the network of ogbn-arxiv's recipe.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import torch

import m3dphormer as m3d
from m3dphormer.experiments.provenance import provenance
from m3dphormer.training.recipes import find_recipe
from m3dphormer.training.resident import peak_resident, reset_peak

TARGET = Path(__file__).resolve().parent.parent / "results" / "arxiv_memory.csv"


def main() -> None:
    """Train a few epochs and write one row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    before = reset_peak()
    data = m3d.load("ogbn-arxiv-guesses", root=given.root)
    data.x = torch.randn(data.num_nodes, given.features, generator=torch.Generator().manual_seed(0))
    settings = {**find_recipe(None, "m3dphormer", "ogbn-arxiv").settings, "epochs": given.epochs}
    classifier = m3d.NodeClassifier(**settings).fit(data)
    times = [epoch.seconds for epoch in classifier.history_]
    row = {
        "nodes": data.num_nodes,
        "features": given.features,
        "settings": str(settings),
        "peak_mb": round((peak_resident() - before) / 1e6),
        "seconds_per_epoch": round((times[-1] - times[0]) / max(len(times) - 1, 1), 1),
        "command": "python benchmarks/arxiv_memory.py --root DIR",
        **provenance(),
    }
    pd.DataFrame([row]).to_csv(TARGET, index=False)
    print(f"peak {row['peak_mb']} MB, {row['seconds_per_epoch']} s an epoch")


if __name__ == "__main__":
    main()
