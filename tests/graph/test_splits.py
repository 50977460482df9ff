"""Every split rule: disjoint parts that cover the labelled nodes, the same on every call."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from m3dphormer.errors import UserError
from m3dphormer.graph.splits import GivenSplit, RandomSplit, Split, SplitRule, StratifiedSplit

LABELS = st.lists(st.integers(-1, 4), min_size=1, max_size=120).map(np.array)
RULES = st.sampled_from([RandomSplit(0.5, 0.25), RandomSplit(0.6, 0.2), StratifiedSplit(0.6, 0.2)])


def parts(split: Split) -> np.ndarray:
    return np.stack([split.train, split.val, split.test])


@given(RULES, LABELS, st.integers(0, 50))
def test_parts_are_disjoint_and_cover_exactly_the_labelled_nodes(
    rule: SplitRule, y: np.ndarray, i: int
) -> None:
    assert np.array_equal(parts(rule.make(y, i)).sum(axis=0), (y >= 0).astype(int))


@given(RULES, LABELS, st.integers(0, 50))
def test_the_same_number_gives_the_same_split(rule: SplitRule, y: np.ndarray, i: int) -> None:
    assert rule.make(y, i).digest() == rule.make(y, i).digest()


@given(RULES, st.integers(0, 50))
def test_another_number_gives_another_split(rule: SplitRule, i: int) -> None:
    y = np.arange(200) % 4
    assert rule.make(y, i).digest() != rule.make(y, i + 1).digest()


@given(LABELS, st.integers(0, 50))
def test_random_shares_are_exact(y: np.ndarray, i: int) -> None:
    split = RandomSplit(0.5, 0.25).make(y, i)
    count = int((y >= 0).sum())
    assert split.train.sum() == int(0.5 * count)
    assert split.val.sum() == int(0.25 * count)


@given(LABELS, st.integers(0, 50))
def test_stratified_shares_hold_in_every_class_to_one_node(y: np.ndarray, i: int) -> None:
    split = StratifiedSplit(0.6, 0.2).make(y, i)
    for label in np.unique(y[y >= 0]):
        inside = y == label
        count = int(inside.sum())
        assert split.train[inside].sum() == max(1, round(0.6 * count))
        assert abs(split.val[inside].sum() - 0.2 * count) <= 1


@given(LABELS, st.integers(0, 50))
def test_stratified_keeps_a_training_node_of_every_class(y: np.ndarray, i: int) -> None:
    split = StratifiedSplit(0.6, 0.2).make(y, i)
    assert set(y[split.train]) == set(y[y >= 0])


@given(st.integers(20, 60), st.integers(0, 200))
def test_stratified_shares_hold_overall(size: int, singletons: int) -> None:
    y = np.concatenate([np.arange(singletons), np.full(size, singletons)])
    split = StratifiedSplit(0.6, 0.2).make(y, 0)
    assert abs(split.val.sum() - 0.2 * size) <= 1
    assert split.test.sum() > 0


def test_splits_never_change_with_a_release() -> None:
    y = np.arange(40) % 3
    assert RandomSplit(0.5, 0.25).make(y, 0).digest() == "4b87f6155ccc8ce8"
    assert StratifiedSplit(0.6, 0.2).make(y, 0).digest() == "22c4014b0ed49ef0"


def test_a_given_split_is_the_same_for_every_number() -> None:
    masks = np.eye(3, dtype=bool)
    rule = GivenSplit(*masks)
    assert np.array_equal(parts(rule.make(np.zeros(3), 7)), masks)


def test_given_splits_are_taken_by_number_and_end() -> None:
    masks = np.random.RandomState(0).rand(3, 5, 2) < 0.5
    rule = GivenSplit(*masks)
    assert np.array_equal(parts(rule.make(np.zeros(5), 1)), masks[:, :, 1])
    with pytest.raises(UserError, match=r"^Split 2 does not exist: the file has 2 \(0 to 1\)\.$"):
        rule.make(np.zeros(5), 2)


def test_the_digest_tells_masks_apart() -> None:
    split = StratifiedSplit(0.6, 0.2).make(np.arange(30) % 2, 0)
    swapped = Split(split.train, split.test, split.val)
    assert split.digest() != swapped.digest()
