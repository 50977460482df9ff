"""Which nodes train, choose the epoch, and are scored: every rule is a function of (labels, i)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch_geometric.data import Data

from m3dphormer.errors import UserError


@dataclass(frozen=True)
class Split:
    """Three disjoint boolean masks over the nodes, each [N]."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray

    def digest(self) -> str:
        """Content hash, stored with every run."""
        rows = np.packbits(np.stack([self.train, self.val, self.test]))
        return hashlib.sha256(rows.tobytes()).hexdigest()[:16]


class SplitRule(Protocol):
    """Gives split number ``i`` of nodes with labels ``y`` (-1: unlabelled, in no part)."""

    def make(self, y: np.ndarray, i: int) -> Split: ...


@dataclass(frozen=True)
class RandomSplit:
    """Shares ``train`` and ``val`` of the labelled nodes, drawn with seed ``i``; the rest test."""

    train: float
    val: float

    def make(self, y: np.ndarray, i: int) -> Split:
        # RandomState's stream is frozen by NumPy's policy: a split never changes with a release.
        order = np.random.RandomState(i).permutation(np.flatnonzero(y >= 0))
        return _cut(order, len(y), int(self.train * len(order)), int(self.val * len(order)))


@dataclass(frozen=True)
class StratifiedSplit:
    """The same shares inside every class; each class keeps at least one training node."""

    train: float
    val: float

    def make(self, y: np.ndarray, i: int) -> Split:
        rng = np.random.RandomState(i)
        parts = Split(*(np.zeros(len(y), bool) for _ in range(3)))
        carry = 0.0  # rounding left over by earlier classes, so that the shares hold overall
        for label in np.unique(y[y >= 0]):
            order = rng.permutation(np.flatnonzero(y == label))
            n_train = max(1, round(self.train * len(order)))
            wanted = self.val * len(order) + carry
            n_val = min(round(wanted), len(order) - n_train)
            carry = wanted - round(wanted)
            one = _cut(order, len(y), n_train, n_val)
            for whole, part in zip(
                (parts.train, parts.val, parts.test), (one.train, one.val, one.test), strict=True
            ):
                whole |= part
        return parts


def check_seeds(data: Data, seeds: int) -> None:
    """Refuse more runs than there are splits, where run i is split i of several that were given."""
    count = data.split_count if "split_count" in data else None
    if count is not None and 1 < count < seeds:
        raise UserError(f"{data.name} came with {count} splits; take --seeds {count} or fewer.")


@dataclass(frozen=True)
class GivenSplit:
    """Splits that came with the graph: masks [N] (one split for every ``i``) or [N, S]."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray

    @property
    def count(self) -> int:
        """How many splits there are."""
        return 1 if self.train.ndim == 1 else int(self.train.shape[1])

    def make(self, y: np.ndarray, i: int) -> Split:
        if self.train.ndim == 1:
            return Split(self.train, self.val, self.test)
        if i >= self.count:
            raise UserError(
                f"Split {i} does not exist: the file has {self.count} (0 to {self.count - 1})."
            )
        return Split(self.train[:, i], self.val[:, i], self.test[:, i])


@dataclass(frozen=True)
class NoSplit:
    """Every node in no part: a graph to predict on."""

    def make(self, y: np.ndarray, i: int) -> Split:
        return Split(*(np.zeros(len(y), bool) for _ in range(3)))


def _cut(order: np.ndarray, size: int, n_train: int, n_val: int) -> Split:
    masks = [np.zeros(size, bool) for _ in range(3)]
    for mask, part in zip(masks, np.split(order, [n_train, n_train + n_val]), strict=True):
        mask[part] = True
    return Split(*masks)
