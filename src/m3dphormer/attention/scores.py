"""The two ways to score a pair: scaled dot product, and additive (GAT-style)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

Rows = slice | Tensor  # which of the T rows: a range, or their numbers
ALL = slice(None)


class Scores(Protocol):
    """Scores of query-key pairs, for all pairs or for chosen ones."""

    @property
    def rows(self) -> int: ...

    @property
    def heads(self) -> int: ...

    def dense(self, queries: Rows = ALL, keys: Rows = ALL) -> Tensor:
        """Every chosen query against every chosen key, [H, queries, keys]."""
        ...

    def at(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Chosen pairs, [m, H]."""
        ...

    def double(self) -> Scores:
        """The same scores in float64."""
        ...


@dataclass(frozen=True)
class DotScores:
    """q_u · k_v / sqrt(d_h); q and k are [T, H, d_h]."""

    q: Tensor
    k: Tensor

    @property
    def rows(self) -> int:
        return self.q.shape[0]

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    def dense(self, queries: Rows = ALL, keys: Rows = ALL) -> Tensor:
        q, k = self.q[queries].transpose(0, 1), self.k[keys].permute(1, 2, 0)
        return torch.bmm(q / math.sqrt(self.q.shape[2]), k)

    def at(self, queries: Tensor, keys: Tensor) -> Tensor:
        product = self.q.index_select(0, queries) * self.k.index_select(0, keys)
        return product.sum(-1) / math.sqrt(self.q.shape[2])

    def double(self) -> Scores:
        return DotScores(self.q.double(), self.k.double())


@dataclass(frozen=True)
class AdditiveScores:
    """LeakyReLU(a_u + b_v); a and b are [T, H]."""

    a: Tensor
    b: Tensor
    slope: float = 0.2

    @property
    def rows(self) -> int:
        return self.a.shape[0]

    @property
    def heads(self) -> int:
        return self.a.shape[1]

    def dense(self, queries: Rows = ALL, keys: Rows = ALL) -> Tensor:
        a, b = self.a[queries].T, self.b[keys].T
        return leaky_relu(a.unsqueeze(2) + b.unsqueeze(1), self.slope)

    def at(self, queries: Tensor, keys: Tensor) -> Tensor:
        return leaky_relu(
            self.a.index_select(0, queries) + self.b.index_select(0, keys), self.slope
        )

    def double(self) -> Scores:
        return replace(self, a=self.a.double(), b=self.b.double())
