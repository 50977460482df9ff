"""Forecast against measured memory and time: writes results/forecast.csv, case by case."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from m3dphormer.attention import SCHEMES
from m3dphormer.experiments.forecast import compare
from m3dphormer.experiments.provenance import provenance

GRAPHS = "cora,citeseer,pubmed,photo,computers,chameleon,squirrel,minesweeper"
TARGET = Path(__file__).resolve().parent.parent / "results" / "forecast.csv"


def main() -> None:
    """Measure each graph under each scheme that fits; cases of this commit are not measured again.

    A call that was interrupted goes on where it stopped.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--graphs", default=GRAPHS, help="comma-separated")
    parser.add_argument("--schemes", default=",".join(SCHEMES), help="comma-separated")
    asked = parser.parse_args()
    origin = {"command": "python benchmarks/forecast.py --root DIR", **provenance()}
    for graph in asked.graphs.split(","):
        for scheme in asked.schemes.split(","):
            if not _known(graph, scheme, origin["commit"]):
                row = compare(graph, scheme, asked.root)
                _save({**row, **origin})
                print(f"{graph} {scheme}: {_told(row)}", flush=True)


def _known(graph: str, scheme: str, commit: str) -> bool:
    if not TARGET.exists():
        return False
    rows = pd.read_csv(TARGET)[["graph", "scheme", "commit"]]
    return bool((rows == [graph, scheme, commit]).all(axis=1).any())


def _told(row: dict[str, object]) -> str:
    if row["skipped"]:
        return f"not measured, {row['skipped']}"
    return (
        f"{row['forecast_mb']} of {row['measured_mb']} MB ({row['memory_off']:+.0%}), "
        f"{row['forecast_seconds']} of {row['measured_seconds']} s ({row['time_off']:+.0%})"
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
