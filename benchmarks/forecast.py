"""Forecast against measured memory and time: writes results/forecast.csv, case by case."""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from m3dphormer.attention import SCHEMES
from m3dphormer.experiments.forecast import again, compare
from m3dphormer.experiments.provenance import provenance

GRAPHS = "cora,citeseer,pubmed,photo,computers,chameleon,squirrel,minesweeper"
CASE = ["graph", "scheme", "threads"]
SIZES = ["threads", "hidden", "layers", "heads", "clusters"]
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
    parser.add_argument("--again", action="store_true", help="forecast anew, measure nothing")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    words = f"python benchmarks/forecast.py --threads {asked.threads} --root DIR"
    origin = {"command": words, **provenance()}
    for scheme, graph in product(asked.schemes.split(","), asked.graphs.split(",")):
        case = {"graph": graph, "scheme": scheme, "threads": asked.threads}
        known = _known(case)
        if asked.again and known:
            row = again(known, asked.root)
        elif not asked.again and (known is None or known["commit"] != origin["commit"]):
            row = {**compare(graph, scheme, asked.root), **origin}
        else:
            continue
        _save({**row, "forecast_commit": origin["commit"]})
        print(f"{graph} {scheme}: {_told(row)}", flush=True)


def _rows() -> pd.DataFrame:
    return pd.read_csv(TARGET) if TARGET.exists() else pd.DataFrame(columns=CASE)


def _same(rows: pd.DataFrame, case: dict[str, Any]) -> pd.Series:
    """Which rows are of a case."""
    return (rows[CASE] == pd.Series({name: case[name] for name in CASE})).all(axis=1)


def _known(case: dict[str, Any]) -> dict[str, Any] | None:
    """The row of a case, if it is there."""
    rows = _rows()
    found = rows[_same(rows, case)].to_dict("records")
    if not found:
        return None
    told = {name: value for name, value in found[0].items() if not pd.isna(value)}
    return {"skipped": "", **told}


def _told(row: dict[str, Any]) -> str:
    if row["skipped"]:
        return f"not measured, {row['skipped']}"
    return (
        f"{row['forecast_mb']} of {row['measured_mb']} MB ({row['memory_off']:+.0%}), "
        f"{row['forecast_seconds']} of {row['measured_seconds']} s ({row['time_off']:+.0%})"
    )


def _save(row: dict[str, Any]) -> None:
    """Put a row into the table in place of an older one of its case."""
    old = _rows()
    rows = pd.concat([old[~_same(old, row)], pd.DataFrame([row])], ignore_index=True)
    TARGET.parent.mkdir(exist_ok=True)
    rows.astype(dict.fromkeys(SIZES, int)).to_csv(TARGET, index=False)


if __name__ == "__main__":
    main()
