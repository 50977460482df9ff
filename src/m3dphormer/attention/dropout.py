"""Attention dropout as a hash of who looks at whom, so that every scheme drops the same entries.

An entry (query u, key v, head h) of one call is dropped where a 32-bit hash of
(seed, call, h, u, v) falls below p·2^32. No random state, no stored mask, any order.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    p: float
    seed: int
    call: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.p < 1.0:
            raise UserError(f"The 'dropout' parameter must be in the range [0, 1). Got {self.p}.")

    def scale(self, queries: Tensor, keys: Tensor, heads: int) -> Tensor:
        """Factor 0 or 1/(1-p) of each entry.

        Args:
            queries: Ids of the queries, any shape that broadcasts with ``keys``.
            keys: Ids of the keys.

        Returns:
            [..., heads] of the broadcast shape, float64.
        """
        bits = hash_entries(self.seed, self.call, queries, keys, heads)
        kept = bits >= int(self.p * 2**32)
        return kept.to(torch.float64) / (1.0 - self.p)


def hash_entries(seed: int, call: int, queries: Tensor, keys: Tensor, heads: int) -> Tensor:
    """Hash of every (query, key, head) in [0, 2^32), as int64 of shape [..., heads]."""
    step = _mix_number(_mix_number(seed) ^ _mix_number((seed >> 32) + 1) ^ (call * _GOLDEN))
    head = torch.arange(heads, device=queries.device)
    row = _mix((queries.unsqueeze(-1) * heads + head) & _WORD ^ step)  # once a row and head
    return _mix((row + keys.unsqueeze(-1) * _GOLDEN) & _WORD)


def _mix(word: Tensor) -> Tensor:
    """A 32-bit finaliser of low bias (xor-shift, multiply; twice), on int64 words."""
    word = ((word ^ (word >> 16)) * 0x7FEB352D) & _WORD
    word = ((word ^ (word >> 15)) * 0x846CA68B) & _WORD
    return word ^ (word >> 16)


def _mix_number(number: int) -> int:
    return int(_mix(torch.tensor(number & _WORD)))
