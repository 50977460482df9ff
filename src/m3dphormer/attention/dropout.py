"""Attention dropout as a hash of who looks at whom, so that every scheme drops the same entries.

An entry (query u, key v, head h) of one call is dropped where a 32-bit hash of
(seed, call, h, u, v) falls below p·2^32. No random state, no stored mask, any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from m3dphormer.errors import UserError

_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9  # 2^32 over the golden ratio: spreads consecutive key ids


@dataclass(frozen=True)
class Dropout:
    """What one attention call drops.

    Args:
        p: Probability to drop a weight, in [0, 1).
        seed: One number a training step.
        call: Tells the attention calls of a step apart.
        names: [rows] what each row is called, where the rows are some of a larger state; None: by
            its number.
    """

    p: float
    seed: int
    call: int = 0
    names: Tensor | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.p < 1.0:
            raise UserError(f"The 'dropout' parameter must be in the range [0, 1). Got {self.p}.")

    @property
    def threshold(self) -> int:
        """Entries whose hash is lower are dropped."""
        return int(self.p * 2**32)

    def scale(self, queries: Tensor, keys: Tensor, heads: int) -> Tensor:
        """Factor 0 or 1/(1-p) of each entry.

        Args:
            queries: Names of the queries, any shape that broadcasts with ``keys``.
            keys: Names of the keys.

        Returns:
            [..., heads] of the broadcast shape, float64.
        """
        bits = hash_entries(self.seed, self.call, queries, keys, heads)
        kept = bits >= self.threshold
        return kept.to(torch.float64) / (1.0 - self.p)


def among(dropout: Dropout | None, rows: Tensor | None) -> Dropout | None:
    """The same entries dropped, where only these rows of a state are at hand."""
    return dropout if dropout is None or rows is None else replace(dropout, names=rows)


def keywords(dropout: Dropout | None) -> dict[str, Any]:
    """Dropout as the arguments of ``attend``."""
    if dropout is None:
        return {}
    return {"dropout": dropout.p, "seed": dropout.seed, "call": dropout.call}


def hash_entries(seed: int, call: int, queries: Tensor, keys: Tensor, heads: int) -> Tensor:
    """Hash of every (query, key, head) in [0, 2^32), as int64 of shape [..., heads]."""
    head = torch.arange(heads, device=queries.device)
    row = _mix((queries.unsqueeze(-1) * heads + head) & _WORD ^ hash_step(seed, call))
    return _mix((row + keys.unsqueeze(-1) * _GOLDEN) & _WORD)


def hash_step(seed: int, call: int) -> int:
    """What all entries of one call share, in [0, 2^32)."""
    low, high = _mix(seed & _WORD), _mix(((seed >> 32) + 1) & _WORD)
    return _mix((low ^ high ^ (call * _GOLDEN)) & _WORD)


_Word = TypeVar("_Word", int, Tensor)


def _mix(word: _Word) -> _Word:
    """A 32-bit finaliser of low bias (xor-shift, multiply; twice), on words wider than that."""
    word = ((word ^ (word >> 16)) * 0x7FEB352D) & _WORD
    word = ((word ^ (word >> 15)) * 0x846CA68B) & _WORD
    return word ^ (word >> 16)
