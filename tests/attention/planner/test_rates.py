from __future__ import annotations

from dataclasses import asdict, replace

import pytest
import torch

from m3dphormer.attention.planner import machine_rates, rates
from m3dphormer.graph.cache import cache_dir


def test_rates_are_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "SHARE", 0.01)
    before = torch.get_rng_state()
    first = machine_rates()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(rate > 0 for rate in asdict(first).values())
    monkeypatch.setattr(rates, "measure_rates", lambda: pytest.fail("measured again"))
    assert machine_rates() == first


def test_known_rates_can_be_measured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "SHARE", 0.01)
    first = machine_rates()
    monkeypatch.setattr(rates, "measure_rates", lambda: replace(first, gemm=1.0))
    assert machine_rates(anew=True).gemm == 1.0
    assert machine_rates().gemm == 1.0


@pytest.mark.parametrize("text", ["", "[]", '{"format": 0}', '{"format": 1, "torch": "0.1"}'])
def test_a_file_that_is_no_good_is_measured_anew(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "SHARE", 0.01)
    machine_rates()
    (path,) = cache_dir("rates").iterdir()
    path.write_text(text)
    assert machine_rates().gemm > 0
    assert path.read_text() != text


def test_the_rates_of_a_time_lie_between_those_at_its_ends() -> None:
    slow = rates.Rates(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0)
    fast = rates.Rates(4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 1.0)
    assert rates.between(slow, fast) == rates.Rates(2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0)
