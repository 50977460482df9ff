from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from m3dphormer.masks.statistics import Reach
from m3dphormer.theory.scenarios import SCENARIOS, name_levels, scenario_shares, smoothed

# Six nodes of two classes in two clusters; the last has an unknown class.
Y = torch.tensor([0, 0, 0, 1, 1, -1])
CLUSTER = torch.tensor([0, 0, 0, 0, 1, 1])
CONSISTENCY: dict[str, Tensor] = {
    "local": torch.tensor([0.9, 0.2, 0.3, 0.1, 0.5, 0.0]),
    "cluster": torch.tensor([0.7, 0.8, 0.4, 0.2, 0.5, 0.0]),
    "global": torch.full((6,), 0.5),
}


def test_strong_local_homophily_comes_first_then_the_most_consistent_level() -> None:
    assert name_levels(CONSISTENCY).tolist()[:5] == [0, 1, 2, 2, 0]
    strong = {**CONSISTENCY, "local": torch.full((6,), 0.6)}
    assert name_levels(strong).tolist() == [0] * 6


def test_the_shares_of_the_five_scenarios() -> None:
    shares = scenario_shares(CONSISTENCY, Y, CLUSTER, 2, alone=np.array([0.95, 0.5]))
    assert set(shares) == set(SCENARIOS)
    assert shares == pytest.approx(
        {"local": 2 / 5, "cluster": 1 / 5, "global": 2 / 5, "minority": 1 / 5, "clear": 3 / 5}
    )
    assert scenario_shares(CONSISTENCY, Y, CLUSTER, 2, alone=None)["clear"] is None


def test_smoothing_pulls_few_keys_to_chance_and_leaves_many_alone() -> None:
    def share(labelled: int, own: int) -> float:
        one = torch.tensor([labelled])
        return float(smoothed(Reach(one, one, torch.tensor([own])), classes=4))

    assert share(0, 0) == 0.25
    assert share(1, 1) == 0.625
    assert share(1000, 900) == pytest.approx(0.9, abs=1e-3)
    assert share(8, 8) > share(2, 2)  # the larger receptive field wins
