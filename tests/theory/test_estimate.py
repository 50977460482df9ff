from __future__ import annotations

import numpy as np
import pytest
import torch

from m3dphormer.theory import estimate_spread


def test_the_noise_of_the_theorems_own_model_is_recovered() -> None:
    rng = np.random.default_rng(0)
    sigma = np.array([0.3, 0.6, 1.2])
    y = rng.integers(3, size=6_000)
    rotation = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    x = (np.eye(3, 8)[y] + sigma[y][:, None] * rng.standard_normal((len(y), 8))) @ rotation
    spread = estimate_spread(torch.from_numpy(x), torch.from_numpy(y), 3)
    assert spread.sigma == pytest.approx(sigma, rel=0.05)
    assert spread.sigma_other == pytest.approx([1.2, 1.2, 0.6], rel=0.05)


def test_the_threshold_errs_as_often_on_both_sides() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20_000)
    noise = np.array([0.2, 0.6])[y][:, None] * rng.standard_normal((len(y), 2))
    x = np.eye(2)[y] + noise
    spread = estimate_spread(torch.from_numpy(x), torch.from_numpy(y), 2)
    missed = (x[y == 0, 0] < spread.delta[0]).mean()
    false = (x[y == 1, 0] >= spread.delta[0]).mean()
    assert missed == pytest.approx(false, rel=0.1)
    assert 1 - missed == pytest.approx(spread.alone[0], rel=0.02)


def test_unknown_labels_do_not_count_and_a_class_without_any_is_nan() -> None:
    x = torch.eye(4, dtype=torch.float64)[torch.arange(40) % 4] + 0.1 * torch.randn(
        40, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    y = torch.arange(40) % 4
    y[y == 3] = -1
    with_noise = x.clone()
    with_noise[y < 0] = 100.0
    first, second = estimate_spread(x, y, 4), estimate_spread(with_noise, y, 4)
    assert np.isnan(first.sigma[3])
    assert np.isnan(first.delta[3])
    np.testing.assert_array_equal(first.sigma, second.sigma)
    assert not np.isnan(first.delta[:3]).any()
