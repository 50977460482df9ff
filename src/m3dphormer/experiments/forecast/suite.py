"""Forecast and measurement side by side, for one graph and scheme at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import torch

from m3dphormer.attention.planner import machine_rates
from m3dphormer.errors import UserError
from m3dphormer.experiments.bench.cases import shape_of
from m3dphormer.training import plan
from m3dphormer.training.forecast import Forecast
from m3dphormer.training.recipes import NONE

LONGEST = 20.0  # seconds an epoch past which a scheme is not measured
LARGEST = 12e9  # bytes past which it is not
PATIENCE = 10.0  # seconds for all epochs, but there are always three
MOST = 30  # epochs


def compare(graph: str, scheme: str, root: str | None) -> dict[str, Any]:
    """One row: what was said, what was measured, and by how much the forecast is off.

    At torch's number of threads; with one thread the times are the processor's, and others may use
    the machine as well. The rates are measured anew, since it is not as fast at all times. Where a
    run would take too long or too much, ``skipped`` says so instead.
    """
    threads = torch.get_num_threads()
    machine_rates(anew=True)
    settings = {**_settings(graph), "scheme": scheme}
    said = plan(graph, recipe=NONE, settings=settings, root=root).schemes[scheme]
    row = {
        "graph": graph,
        "threads": threads,
        **settings,
        "forecast_mb": round(said.peak_bytes / 1e6, 1),
        "forecast_seconds": round(said.seconds_per_epoch, 5),
        "skipped": _why_not(said),
    }
    if row["skipped"]:
        return row
    epochs = min(MOST, max(3, int(PATIENCE / said.seconds_per_epoch)))
    task = {"graph": graph, "root": root, "threads": threads}
    got = _run({**task, "settings": {**settings, "epochs": epochs}})
    peak, taken = got["peak_bytes"], got["seconds_per_epoch"]
    return {
        **row,
        "measured_mb": round(peak / 1e6, 1),
        "memory_off": round(said.peak_bytes / peak - 1, 3),
        "measured_seconds": round(taken, 5),
        "time_off": round(said.seconds_per_epoch / taken - 1, 3),
    }


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
