"""Forecast and measurement side by side, for one graph and scheme at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from m3dphormer.attention import SCHEMES
from m3dphormer.errors import UserError
from m3dphormer.experiments.bench.cases import shape_of
from m3dphormer.training import plan

LONGEST = 3.0  # seconds an epoch past which a scheme is not measured
SHARE = 0.7  # of the available memory past which a scheme is not measured


def feasible(graph: str, root: str | None) -> list[str]:
    """The schemes that can be measured here without patience or swap."""
    found = plan(graph, settings=_settings(graph), root=root)
    return [
        scheme
        for scheme in SCHEMES
        if found.schemes[scheme].peak_bytes < SHARE * found.available_bytes
        and found.schemes[scheme].seconds_per_epoch < LONGEST
    ]


def compare(graph: str, scheme: str, root: str | None) -> dict[str, Any]:
    """One row: what was said, what was measured, and by how much the forecast is off."""
    settings = {**_settings(graph), "scheme": scheme}
    said = plan(graph, settings=settings, root=root).schemes[scheme]
    epochs = 5 if said.seconds_per_epoch > 0.5 else 20
    got = _run({"graph": graph, "root": root, "settings": {**settings, "epochs": epochs}})
    peak, taken = got["peak_bytes"], got["seconds_per_epoch"]
    return {
        "graph": graph,
        "scheme": scheme,
        **settings,
        "forecast_mb": round(said.peak_bytes / 1e6, 1),
        "measured_mb": round(peak / 1e6, 1),
        "memory_off": round(said.peak_bytes / peak - 1, 3),
        "forecast_seconds": round(said.seconds_per_epoch, 5),
        "measured_seconds": round(taken, 5),
        "time_off": round(said.seconds_per_epoch / taken - 1, 3),
    }


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
