from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from m3dphormer.experiments.bench import bench_tables, growth_slopes, save_bench
from m3dphormer.experiments.bench.cases import EPOCHS, OURS


def table() -> pd.DataFrame:
    rows = []
    for scheme, factor in ((OURS, 1.0), ("dual", 5.0), ("pyg TransformerConv", 4.0)):
        for heap in ("default", "warm"):
            common = {"graph": "cora", "kind": "dot", "heap": heap, "threads": 2, "scheme": scheme}
            time = {"median": 0.01 * factor, "q1": 0.009 * factor, "q3": 0.011 * factor}
            rows.append({"part": "attention", **common, **time})
        memory = {"peak_bytes": 1e6 * factor, "floor_bytes": 8e5}
        rows.append({"part": "attention memory", **common, **memory, "heap": "default"})
    for power in range(12, 21):
        size = {"nodes": 2**power, "kind": "dot", "heap": "warm", "threads": 2}
        grown = {"median": 1e-9 * 2 ** (1.05 * power), "peak_bytes": 100.0 * 2**power}
        rows.append({"part": "growth", "graph": "geometric", "scheme": OURS, **size, **grown})
    return pd.DataFrame(rows)


def test_ratios_are_to_ours_in_the_same_setting() -> None:
    tables = bench_tables(table())
    attention = tables["attention"]
    ratios = attention.groupby("scheme")[f"over {OURS}"].unique()
    assert ratios["dual"].tolist() == [5.0]
    assert ratios[OURS].tolist() == [1.0]
    assert attention["ms"].tolist() == pytest.approx([10, 10, 50, 50, 40, 40])
    memory = tables["attention memory"].set_index("scheme")
    assert memory.loc[OURS, "over floor"] == pytest.approx(1.25)


def test_ratios_are_to_ours_on_the_same_graph() -> None:
    slower = table().assign(graph="pubmed")
    slower["median"] *= 2
    slower.loc[slower["scheme"] == "dual", "median"] *= 3
    told = bench_tables(pd.concat([table(), slower]))["attention"].set_index(["graph", "scheme"])
    assert set(told.loc[("cora", "dual"), f"over {OURS}"]) == {5.0}
    assert set(told.loc[("pubmed", "dual"), f"over {OURS}"].round(9)) == {15.0}


def test_growth_is_fitted_past_the_cache() -> None:
    rows = table()
    rows.loc[(rows["part"] == "growth") & (rows["nodes"] < 2**16), "median"] = 1e-9
    slopes = growth_slopes(rows).iloc[0]
    assert slopes["time"] == pytest.approx(1.05)
    assert slopes["memory"] == pytest.approx(1.0)


def test_the_csv_says_where_the_numbers_came_from(tmp_path: Path) -> None:
    save_bench(table(), tmp_path / "results", command="m3dphormer bench")
    written = pd.read_csv(tmp_path / "results" / "bench.csv")
    assert {"commit", "machine", "torch", "command"} <= set(written.columns)
    assert np.allclose(written["median"].dropna(), table()["median"].dropna())
    assert (tmp_path / "results" / "bench.png").stat().st_size > 10_000


def test_parts_not_measured_again_stay(tmp_path: Path) -> None:
    save_bench(table(), tmp_path, command="first")
    again = table()
    save_bench(again[again["part"] == "growth"], tmp_path, command="second")
    written = pd.read_csv(tmp_path / "bench.csv")
    assert len(written) == len(again)
    assert set(written.loc[written["part"] == "growth", "command"]) == {"second"}
    assert set(written.loc[written["part"] != "growth", "command"]) == {"first"}


def test_a_graph_and_a_setting_not_measured_again_stay(tmp_path: Path) -> None:
    save_bench(table(), tmp_path, command="first")
    again = table()
    some = again[(again["part"] == "attention") & (again["heap"] == "warm")]
    save_bench(some, tmp_path, command="second")
    save_bench(some.assign(graph="pubmed"), tmp_path, command="third")
    written = pd.read_csv(tmp_path / "bench.csv")
    assert written["command"].value_counts().to_dict() == {
        "first": len(again) - len(some),
        "second": len(some),
        "third": len(some),
    }


def test_every_rival_has_a_colour(tmp_path: Path) -> None:
    first = {"part": "epochs", "graph": "cora", "heap": "default", "threads": 2, "median": 1.0}
    rows = pd.DataFrame([{**first, "kind": None, "scheme": name} for name in EPOCHS])
    save_bench(rows, tmp_path, command="m3dphormer bench")
    assert (tmp_path / "bench.png").exists()


def test_epochs_alone_have_a_figure(tmp_path: Path) -> None:
    first = {"part": "epochs", "graph": "cora", "heap": "default", "threads": 2, "median": 1.0}
    save_bench(pd.DataFrame([{**first, "scheme": name} for name in EPOCHS]), tmp_path, command="m")
    assert (tmp_path / "bench.png").exists()
