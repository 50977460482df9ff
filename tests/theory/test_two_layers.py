from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from m3dphormer.errors import UserError
from m3dphormer.theory import two_layers


def sharp(n: int, sharpness: float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, n, generator=generator, dtype=torch.float64)
    return (sharpness * scores).softmax(dim=1)


def test_what_two_c4_layers_can_say_is_fitted_without_error() -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(9, generator=generator, dtype=torch.float64)
    b = torch.rand(9, generator=generator, dtype=torch.float64).softmax(dim=0)
    attention = torch.diag(1 - a) + torch.outer(a, b)
    fit = two_layers(attention)
    assert fit.error < 1e-4
    assert torch.allclose(fit.attention, attention, atol=1e-4)


def test_uniform_attention_is_exact_and_the_error_grows_as_attention_sharpens() -> None:
    errors = [two_layers(sharp(16, sharpness)).error for sharpness in (0.0, 0.5, 1.0, 2.0)]
    assert errors[0] < 1e-9
    assert errors == sorted(errors)
    assert errors[-1] > 0.5  # so "equivalently modelled" is not what two layers do


@pytest.mark.parametrize("seed", range(4))
def test_no_general_optimiser_finds_a_nearer_one(seed: int) -> None:
    n = 5
    attention = sharp(n, 1.5, seed)
    target = attention.numpy()

    def distance(point: np.ndarray) -> float:
        a, b = point[:n], point[n:]
        return float(np.square(target - np.diag(1 - a) - np.outer(a, b)).sum())

    rng = np.random.RandomState(seed)
    found = min(
        minimize(
            distance,
            np.concatenate([rng.rand(n), rng.dirichlet(np.ones(n))]),
            method="SLSQP",
            bounds=[(0, 1)] * (2 * n),
            constraints={"type": "eq", "fun": lambda point: point[n:].sum() - 1},
        ).fun
        for _ in range(8)
    )
    fit = two_layers(attention)
    assert fit.error <= np.sqrt(found) / np.linalg.norm(target) + 1e-4


def test_the_fit_is_an_attention_itself() -> None:
    fit = two_layers(sharp(12, 1.0))
    assert torch.allclose(fit.attention.sum(dim=1), torch.ones(12, dtype=torch.float64))
    assert bool((fit.attention >= 0).all())
    assert fit.error == pytest.approx(
        float((sharp(12, 1.0) - fit.attention).norm() / sharp(12, 1.0).norm())
    )


def test_a_cluster_of_one_is_exact() -> None:
    assert two_layers(torch.ones(1, 1)).error == 0.0


def test_what_is_no_attention_is_refused() -> None:
    with pytest.raises(UserError, match="rows that sum to 1"):
        two_layers(torch.ones(3, 3))
