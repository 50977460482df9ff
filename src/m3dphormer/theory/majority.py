"""Scenario 4: attention between clusters (c1) makes the majority's bias surer, not smaller.

A cluster node that attends evenly to n members carries Σ p_i μ_i plus noise of variance σ²/n. Its
likeness to the majority class M and to a minority class m differs by p_M - p_m on average. When
alike clusters attend to each other that mean stays, and the noise falls with their number: a
minority node that reads from it is told the wrong class with more certainty.
"""

from __future__ import annotations

from m3dphormer.errors import UserError
from m3dphormer.theory.theorem import Normal


def majority_wins(major: float, minor: float, size: int, sigma: float, clusters: int = 1) -> float:
    """Chance that a cluster node is nearer to the majority's prototype than to a minority's.

    Args:
        major: Share of the majority class in the cluster.
        minor: Share of the minority class.
        size: Members of a cluster.
        sigma: Standard deviation of a member's representation.
        clusters: How many alike clusters attend to each other through c1; 1 is without c1.
    """
    if not 0 <= minor <= major <= 1 or major + minor > 1 + 1e-9:
        raise UserError("The shares must satisfy 0 <= minor <= major and major + minor <= 1.")
    if size < 1 or clusters < 1:
        raise UserError("A cluster has at least one member, and there is at least one cluster.")
    return Normal(major - minor, 2 * sigma**2 / (size * clusters)).above(0.0)
