"""Forecast against measured memory and time: writes results/forecast.csv, case by case."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import torch

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
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    words = f"python benchmarks/forecast.py --threads {asked.threads} --root DIR"
    origin = {"command": words, **provenance()}
    for graph in asked.graphs.split(","):
        for scheme in asked.schemes.split(","):
            case = {"graph": graph, "scheme": scheme, "threads": asked.threads}
            if not _same(_rows(), {**case, "commit": origin["commit"]}).any():
                row = compare(graph, scheme, asked.root)
                _save({**row, **origin})
                print(f"{graph} {scheme}: {_told(row)}", flush=True)


def _rows() -> pd.DataFrame:
    keys = ["graph", "scheme", "threads", "commit"]
    return pd.read_csv(TARGET) if TARGET.exists() else pd.DataFrame(columns=keys)


def _same(rows: pd.DataFrame, case: dict[str, object]) -> pd.Series:
    """Which rows are of a case."""
    return (rows[list(case)] == pd.Series(case)).all(axis=1)


def _told(row: dict[str, object]) -> str:
    if row["skipped"]:
        return f"not measured, {row['skipped']}"
    return (
        f"{row['forecast_mb']} of {row['measured_mb']} MB ({row['memory_off']:+.0%}), "
        f"{row['forecast_seconds']} of {row['measured_seconds']} s ({row['time_off']:+.0%})"
    )


def _save(row: dict[str, object]) -> None:
    """Put a row into the table in place of an older one of its case."""
    old = _rows()
    same = _same(old, {name: row[name] for name in ("graph", "scheme", "threads")})
    TARGET.parent.mkdir(exist_ok=True)
    pd.concat([old[~same], pd.DataFrame([row])], ignore_index=True).to_csv(TARGET, index=False)


if __name__ == "__main__":
    main()
