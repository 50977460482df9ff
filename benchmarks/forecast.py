"""Forecast against measured memory and time: writes results/forecast.csv, case by case."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from m3dphormer.experiments.forecast import compare, feasible
from m3dphormer.experiments.provenance import provenance

GRAPHS = "cora,citeseer,pubmed,photo,computers,chameleon,squirrel,minesweeper"
TARGET = Path(__file__).resolve().parent.parent / "results" / "forecast.csv"


def main() -> None:
    """Measure each graph under each scheme that fits; rows of earlier calls are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--graphs", default=GRAPHS, help="comma-separated")
    parser.add_argument("--schemes", help="comma-separated; default: all that fit")
    asked = parser.parse_args()
    for graph in asked.graphs.split(","):
        for scheme in asked.schemes.split(",") if asked.schemes else feasible(graph, asked.root):
            row = compare(graph, scheme, asked.root)
            _save({**row, "command": "python benchmarks/forecast.py --root DIR", **provenance()})
            print(
                f"{graph} {scheme}: {row['forecast_mb']} of {row['measured_mb']} MB "
                f"({row['memory_off']:+.0%}), {row['forecast_seconds']} of "
                f"{row['measured_seconds']} s ({row['time_off']:+.0%})",
                flush=True,
            )


def _save(row: dict[str, object]) -> None:
    """Put a row into the table in place of an older one of its graph and scheme."""
    rows = pd.DataFrame([row])
    if TARGET.exists():
        old = pd.read_csv(TARGET)
        same = (old["graph"] == row["graph"]) & (old["scheme"] == row["scheme"])
        rows = pd.concat([old[~same], rows], ignore_index=True)
    TARGET.parent.mkdir(exist_ok=True)
    rows.to_csv(TARGET, index=False)


if __name__ == "__main__":
    main()
