"""How near two c4 layers come to one c3 layer (the paper's Proposition 3, which says "equal").

Two c4 layers let node u put 1 - a_u on itself and a_u on the cluster node, which spreads over the
members as b: diagonal plus rank one. One c3 layer is any row-stochastic matrix A. So equality is
the exception, and the distance is what can be measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from m3dphormer.errors import UserError

STEPS, STILL = 500, 1e-10


@dataclass(frozen=True)
class TwoLayers:
    """The nearest D + a bᵀ to a cluster's attention A, D diagonal, all >= 0, rows that sum to 1.

    Args:
        a: [n] what each member takes from the cluster node; D is 1 - a.
        b: [n] what the cluster node takes from each member; sums to 1.
        error: ‖A − (D + a bᵀ)‖_F / ‖A‖_F.
    """

    a: Tensor
    b: Tensor
    error: float

    @property
    def attention(self) -> Tensor:
        """D + a bᵀ, [n, n]."""
        return torch.diag(1 - self.a) + torch.outer(self.a, self.b)


def two_layers(attention: Tensor) -> TwoLayers:
    """Fit the two-layer form to one cluster's attention.

    Each step is the exact minimum over a given b, then over b given a (a projection on the
    simplex). The problem is not convex in both, so the best of a few starts is taken.

    Args:
        attention: [n, n], rows that sum to 1.
    """
    A = attention.double()
    rows = A.sum(dim=1)
    if A.dim() != 2 or A.shape[0] != A.shape[1] or not torch.allclose(rows, torch.ones_like(rows)):
        raise UserError("The attention of a cluster must be square with rows that sum to 1.")
    n = len(A)
    between = A - torch.diag(A.diagonal())
    starts = [A.mean(dim=0), torch.full((n,), 1 / n, dtype=A.dtype), between.mean(dim=0)]
    return min((_descend(A, _on_simplex(start)) for start in starts), key=lambda fit: fit.error)


def _descend(A: Tensor, b: Tensor) -> TwoLayers:
    eye = torch.eye(len(A), dtype=A.dtype)
    found: TwoLayers | None = None
    for _ in range(STEPS):
        toward = b - eye  # row u: what a_u moves
        length = toward.square().sum(dim=1)
        a = (((A - eye) * toward).sum(dim=1) / length.clamp(min=STILL)).clamp(0, 1)
        if bool(a.any()):
            rest = A - torch.diag(1 - a)
            b = _on_simplex(a @ rest / a.square().sum())
        step = TwoLayers(a, b, 0.0)
        error = float((A - step.attention).norm() / A.norm())
        step = TwoLayers(a, b, error)
        if found is not None and found.error - error < STILL:
            return min(found, step, key=lambda fit: fit.error)
        found = step
    assert found is not None
    return found


def _on_simplex(point: Tensor) -> Tensor:
    """The nearest vector with entries >= 0 that sum to 1."""
    ordered = point.sort(descending=True).values
    excess = (ordered.cumsum(0) - 1) / torch.arange(1, len(point) + 1)
    support = int((ordered > excess).sum())
    return (point - excess[support - 1]).clamp(min=0)
