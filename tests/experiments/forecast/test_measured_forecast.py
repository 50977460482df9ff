from __future__ import annotations

import pytest

from m3dphormer.attention.planner import rates
from m3dphormer.experiments.forecast import compare, feasible


def test_a_row_says_by_how_much_the_forecast_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "SHARE", 0.01)
    row = compare("hierarchy", "fused", None)
    off = row["forecast_mb"] / row["measured_mb"] - 1
    assert row["memory_off"] == pytest.approx(off, abs=0.01)
    assert abs(row["forecast_mb"] - row["measured_mb"]) < 50 + 0.2 * row["measured_mb"]
    assert row["measured_seconds"] > 0


def test_schemes_that_would_take_too_long_are_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rates, "SHARE", 0.01)
    monkeypatch.setattr("m3dphormer.experiments.forecast.suite.LONGEST", 0.0)
    assert feasible("hierarchy", None) == []
