from __future__ import annotations

import numpy as np
import pytest

from m3dphormer.errors import UserError
from m3dphormer.theory import majority_wins

DRAWS = 20_000


@pytest.mark.parametrize("clusters", [1, 4])
def test_the_chance_is_that_of_a_simulation(clusters: int) -> None:
    sigma, size = 1.5, 10  # of each cluster five nodes of class 0, three of 1, two of 2
    y = np.tile(np.repeat([0, 1, 2], [5, 3, 2]), clusters)
    rng = np.random.default_rng(0)
    z = np.eye(3)[y] + sigma * rng.standard_normal((DRAWS, len(y), 3))
    mean = z.mean(axis=1)
    seen = (mean[:, 0] >= mean[:, 1]).mean()
    chance = majority_wins(0.5, 0.3, size, sigma, clusters)
    assert abs(seen - chance) < 3 * np.sqrt(chance * (1 - chance) / DRAWS)


def test_attention_between_alike_clusters_amplifies_the_majority() -> None:
    chances = [majority_wins(0.5, 0.3, 10, 1.5, clusters) for clusters in (1, 2, 8, 64)]
    assert chances == sorted(chances)
    assert chances[0] < 0.65
    assert chances[-1] > 0.99


def test_shares_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match="minor <= major"):
        majority_wins(0.3, 0.5, 10, 1.0)
    with pytest.raises(UserError, match="at least one member"):
        majority_wins(0.5, 0.3, 0, 1.0)
