"""Forecast and measurement side by side, for one graph and scheme at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import torch

from m3dphormer.attention.planner import Rates, between, machine_rates
from m3dphormer.errors import UserError
from m3dphormer.experiments.bench.cases import shape_of
from m3dphormer.training import plan
from m3dphormer.training.forecast import Forecast
from m3dphormer.training.recipes import NONE

LONGEST = 60.0  # seconds an epoch past which a scheme is not measured
LARGEST = 10e9  # bytes past which it is not
PATIENCE = 5.0  # seconds for all epochs, but there are always three
MOST = 20  # epochs
Row = dict[str, Any]


def compare(graph: str, scheme: str, root: str | None) -> Row:
    """One row: what was said, what was measured, and by how much the forecast is off.

    At torch's number of threads; with one thread the times are the processor's, and others may use
    the machine as well. The rates are measured before and after the run, since it is not as fast at
    all times. Where a run would take too long or too much, ``skipped`` says so instead.
    """
    threads, settings = torch.get_num_threads(), {**_settings(graph), "scheme": scheme}
    rates = machine_rates(anew=True)
    said = _said(graph, scheme, rates, root)
    row = {"graph": graph, "threads": threads, **settings, "skipped": _why_not(said)}
    if not row["skipped"]:
        epochs = min(MOST, max(3, int(PATIENCE / said.seconds_per_epoch)))
        task = {"graph": graph, "root": root, "threads": threads}
        got = _run({**task, "settings": {**settings, "epochs": epochs}})
        rates = between(rates, machine_rates(anew=True))
        row["measured_mb"] = round(got["peak_bytes"] / 1e6, 1)
        row["measured_seconds"] = round(got["seconds_per_epoch"], 5)
    return again({**row, "rates": _text(rates)}, root)


def again(row: Row, root: str | None) -> Row:
    """A row with the forecast made anew, for a machine as fast as it was when it was measured."""
    known = json.loads(row["rates"])
    rates = Rates(**{"project": known["gemm"], **known})  # older rows had torch's products alone
    return {**row, **_against(row, _said(row["graph"], row["scheme"], rates, root))}


def _said(graph: str, scheme: str, rates: Rates, root: str | None) -> Forecast:
    made = plan(graph, recipe=NONE, settings=_settings(graph), root=root, rates=rates)
    return made.schemes[scheme]


def _against(row: Row, said: Forecast) -> Row:
    """The forecast, and how far it is from what was measured, if anything was."""
    memory, taken = said.peak_bytes / 1e6, said.seconds_per_epoch
    found: Row = {"forecast_mb": round(memory, 1), "forecast_seconds": round(taken, 5)}
    if not row["skipped"]:
        found["memory_off"] = round(memory / row["measured_mb"] - 1, 3)
        found["time_off"] = round(taken / row["measured_seconds"] - 1, 3)
    return found


def _text(rates: Rates) -> str:
    return json.dumps({name: float(f"{rate:.4g}") for name, rate in asdict(rates).items()})


def _why_not(said: Forecast) -> str:
    if said.peak_bytes > LARGEST:
        return f"would take more than {LARGEST / 1e9:.0f} GB"
    if said.seconds_per_epoch > LONGEST:
        return f"an epoch would take more than {LONGEST:.0f} s"
    return ""


def _settings(graph: str) -> dict[str, Any]:
    shape = shape_of(graph)
    names = ("layers", "heads", "clusters")
    return {"hidden": shape.width, **{name: getattr(shape, name) for name in names}}


def _run(task: dict[str, Any]) -> dict[str, float]:
    command = [sys.executable, "-m", "m3dphormer.experiments.forecast.worker", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UserError(f"The run {json.dumps(task)} failed: {last}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured
