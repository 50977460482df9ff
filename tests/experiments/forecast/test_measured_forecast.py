"""The forecast of memory holds on a small graph, so that a change of the code cannot outdate it."""

from __future__ import annotations

import pytest

from m3dphormer.attention import SCHEMES
from m3dphormer.attention.planner import rates
from m3dphormer.experiments.forecast import again, compare, suite


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "SHARE", 0.01)
    monkeypatch.setattr(suite, "PATIENCE", 0.0)  # three epochs


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_forecast_of_memory_is_within_a_fifth(scheme: str) -> None:
    row = compare("digits", scheme, None)
    assert abs(row["forecast_mb"] - row["measured_mb"]) < 50 + 0.2 * row["measured_mb"]
    off = row["forecast_mb"] / row["measured_mb"] - 1
    assert row["memory_off"] == pytest.approx(off, abs=0.01)
    assert row["measured_seconds"] > 0


def test_what_would_take_too_long_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "LONGEST", 0.0)
    row = compare("hierarchy", "fused", None)
    assert row["skipped"] == "an epoch would take more than 0 s"
    assert "measured_mb" not in row


def test_the_rates_are_measured_anew_for_each_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suite, "LARGEST", 0.0)
    times = []
    measure = rates.measure_rates
    monkeypatch.setattr(rates, "measure_rates", lambda: times.append(1) or measure())
    compare("hierarchy", "fused", None)
    compare("hierarchy", "sparse", None)
    assert len(times) == 2


def test_a_forecast_made_again_keeps_what_was_measured() -> None:
    row = compare("hierarchy", "sparse", None)
    stale = {**row, "forecast_mb": 0.0, "memory_off": -1.0, "forecast_seconds": 0.0}
    assert again(stale, None) == pytest.approx(row)
