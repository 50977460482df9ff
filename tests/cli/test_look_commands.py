"""datasets, audit, plan and help as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

from command import Command
from m3dphormer.graph.benchmarks.table import BENCHMARKS


def test_datasets_lists_all_with_numbers_and_sources(command: Command) -> None:
    code, out, _ = command("datasets", "--json")
    listed = {one["name"]: one for one in json.loads(out)["datasets"]}
    assert code == 0
    assert set(listed) == {*BENCHMARKS, "digits", "hierarchy"}
    assert listed["digits"]["source"].startswith("embedded")
    assert listed["cora"]["source"].startswith("download from https://")
    assert listed["cora"]["nodes"] == 2708
    code, out, _ = command("datasets")
    assert code == 0
    assert all(name in out for name in listed)


def test_audit_prints_tables_and_advice_and_writes_what_was_asked_for(command: Command) -> None:
    code, out, err = command(
        "audit", "hierarchy", "--figure", "audit.png", "--nodes", "nodes.csv", "--clusters", "40"
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "hierarchy: 1,280 nodes, 768 training labels"
    assert [line for line in lines if line in ("Masks", "Scenarios", "Advice")] == [
        "Masks",
        "Scenarios",
        "Advice",
    ]
    assert lines[-1] == "- To start from: --set experts=l2,c4,g3 --set clusters=40"
    assert Path("audit.png").stat().st_size > 0
    assert len(Path("nodes.csv").read_text().splitlines()) == 1281


def test_audit_as_json_keeps_its_contract(command: Command) -> None:
    code, out, err = command("audit", "hierarchy", "--json", "--all-labels")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["labels"] == "all"
    assert all(isinstance(line, str) for line in told["advice"])
    keys = {"nnz", "density", "receptive_field", "label_consistency", "lower", "upper"}
    for one in told["masks"].values():
        assert keys <= set(one)
        assert len(one["receptive_field"]) == 3
    l2 = told["masks"]["l2"]
    assert l2["nnz"] == 11638
    assert len(l2["label_consistency"]) == 3
    assert 0.5 <= l2["lower"] <= l2["upper"] <= 1


def test_help_names_every_command(command: Command) -> None:
    code, out, _ = command("--help")
    assert code == 0
    named = ("train", "predict", "report", "datasets", "audit", "tune", "bench")
    assert all(name in out for name in named)


def test_plan_prints_regions_and_a_forecast_for_each_scheme(command: Command) -> None:
    code, out, err = command("plan", "hierarchy", "--set", "hidden=32")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line]
    assert ["scheme", "peak", "memory", "s", "/", "epoch", "fits"] in lines
    assert "A dense transformer of as many layers and heads: 88 MB" in out
    assert [line[0] for line in lines[-5:]] == ["fused", "sparse", "dual", "dense", "reference"]


def test_plan_as_json_prints_what_the_contract_says(command: Command) -> None:
    code, out, err = command("plan", "hierarchy", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert set(found["schemes"]) == {"fused", "sparse", "dual", "dense", "reference"}
    for forecast in found["schemes"].values():
        assert set(forecast) == {"peak_bytes", "seconds_per_epoch", "fits"}
    assert {"mask", "rows", "columns", "density", "dual", "fused"} <= set(found["regions"][0])
