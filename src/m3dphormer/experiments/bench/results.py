"""What the benchmark says: ratios to ours, growth exponents; a csv and a figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from m3dphormer.experiments.bench.cases import OURS
from m3dphormer.experiments.provenance import provenance
from m3dphormer.plots.bench import bench_figure

GROWTH_FITTED = 2**16  # the last-level cache ends before this many nodes
SETTING = ["graph", "kind", "heap", "threads"]
MEASURED = ["part", "graph", "heap", "threads"]  # what one run measures anew, if at all


def bench_tables(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Readable tables by part; times in milliseconds, memory in MB, ratios to ours."""
    tables = {}
    for part, rows in table.groupby("part", sort=False):
        if part == "growth":
            columns = {"graph": rows["graph"], "kind": rows["kind"]}
            columns |= {"nodes": rows["nodes"].astype(int)}
            columns |= {"ms": 1e3 * rows["median"], "peak MB": rows["peak_bytes"] / 1e6}
            tables["growth"] = pd.DataFrame(columns)
            tables["growth exponents"] = growth_slopes(table)
            continue
        column, unit, scale = ("median", "ms", 1e3)
        if "memory" in str(part):
            column, unit, scale = ("peak_bytes", "peak MB", 1e-6)
        told = [name for name in SETTING if rows.get(name) is not None and rows[name].notna().all()]
        ours = rows[rows["scheme"] == OURS].set_index(told)[column]
        base = ours.reindex(pd.MultiIndex.from_frame(rows[told])).to_numpy()
        shown = rows[[*told, "scheme"]].assign(**{unit: scale * rows[column]})
        if column == "median":
            shown["quartiles"] = [
                f"{1e3 * q1:.3g}-{1e3 * q3:.3g}"
                for q1, q3 in zip(rows["q1"], rows["q3"], strict=True)
            ]
        shown[f"over {OURS}"] = rows[column].to_numpy() / base
        if "floor_bytes" in rows and rows["floor_bytes"].notna().all():
            shown["over floor"] = rows["peak_bytes"] / rows["floor_bytes"]
        tables[str(part)] = shown
    return tables


def growth_slopes(table: pd.DataFrame) -> pd.DataFrame:
    """Exponents of N for time and memory, fitted on a log-log scale past the cache."""
    grown = table[(table["part"] == "growth") & (table["nodes"] >= GROWTH_FITTED)]
    rows = []
    for (graph, kind), group in grown.groupby(["graph", "kind"], sort=False):
        size = np.log2(group["nodes"].to_numpy(float))
        fitted = {
            what: float(np.polyfit(size, np.log2(group[column].to_numpy(float)), 1)[0])
            for what, column in (("time", "median"), ("memory", "peak_bytes"))
        }
        rows.append({"graph": graph, "kind": kind, **fitted})
    return pd.DataFrame(rows)


def save_bench(table: pd.DataFrame, folder: Path, command: str) -> None:
    """Write ``bench.csv`` with its provenance, and ``bench.png``.

    Rows of parts, graphs and settings that were not measured this time stay, with the command and
    commit they had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bench.csv"
    table = table.assign(command=command, **provenance())
    if path.exists():
        before = pd.read_csv(path)
        measured = pd.MultiIndex.from_frame(table[MEASURED])
        stays = ~pd.MultiIndex.from_frame(before[MEASURED]).isin(measured)
        table = pd.concat([before[stays], table], ignore_index=True)
    table.to_csv(path, index=False)
    bench_figure(table, OURS).savefig(folder / "bench.png", dpi=120)
