"""Bad input is told in one line that names the thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph.checks import check_graph, check_labels, check_split
from m3dphormer.graph.raw import RawGraph, finish
from m3dphormer.graph.splits import GivenSplit, Split

Y = np.array([0, 0, 0, 1, 1, 1, 1, 0])
GOOD: dict[str, Any] = {
    "name": "mine",
    "x": np.ones((8, 2), dtype=np.float32),
    "edges": np.array([[0, 1, 2], [1, 2, 3]]),
    "y": Y,
    "node_ids": None,
}
NAN = np.where(np.arange(16).reshape(8, 2) == 5, np.nan, 1.0)
HUGE = np.where(np.arange(16).reshape(8, 2) == 5, 1e39, 1.0)


def masks(train: list[int], val: list[int], test: list[int]) -> Split:
    return Split(*(np.isin(np.arange(8), part) for part in (train, val, test)))


def test_a_good_graph_and_split_pass() -> None:
    check_graph(**GOOD)
    check_split("mine", masks([0, 3], [1, 4], [2, 5]), Y, ["cat", "dog"], given=True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"y": Y[:0]}, "mine: the graph is empty"),
        ({"node_ids": ["a"]}, "mine: 1 node ids for 8 nodes"),
        ({"node_ids": [1, "1", *"abcdef"]}, "mine: two ids read '1' as text; ids must differ"),
        ({"node_ids": [*"abcdef", 2.5, "2.5"]}, "mine: two ids read '2.5' as text"),
        ({"x": np.ones(8)}, r"mine: features must be a table of nodes x columns. Got \(8,\)"),
        ({"x": np.ones((8, 0))}, r"mine: features must be a table .* Got \(8, 0\)"),
        ({"x": np.ones((7, 2))}, "mine: 7 feature rows for 8 labels"),
        ({"x": np.full((8, 2), "a")}, "mine: features must be numbers. Got <U1"),
        ({"x": np.full((8, 2), 1j)}, "mine: features must be numbers. Got complex128"),
        ({"x": NAN}, "mine: 1 feature values are NaN or infinite, first at node 2, column 1"),
        ({"x": -np.inf * np.ones((8, 2))}, "mine: 16 feature values are NaN or infinite"),
        ({"x": HUGE}, "mine: 1 feature values are NaN or infinite, first at node 2, column 1"),
        ({"edges": np.ones((3, 2), dtype=int)}, r"mine: edges must have two rows.* Got \(3, 2\)"),
        ({"edges": np.array([[0, 8], [1, 1]])}, "mine: 1 edges name nodes .* first 8-1 in a graph"),
        ({"edges": np.array([[0], [-1]])}, r"mine: 1 edges name nodes .* first 0--1 .*\(0 to 7\)"),
    ],
)
def test_a_bad_graph_is_told_in_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        check_graph(**GOOD | wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(8, -1), "mine: no node has a label"),
        (np.ones(8, dtype=int), "mine: all labels are 'dog'; there must be two classes"),
    ],
)
def test_labels_that_teach_nothing_are_told_in_one_line(y: np.ndarray, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        check_labels("mine", y, ["cat", "dog"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("names", [["a", "a"], ["1", 1], ["cat", "dog", "cat"]])
def test_two_classes_of_one_name_are_told_in_one_line(names: list[Any]) -> None:
    words = f"^mine: two classes have the label name '{names[-1]}'; names must differ.$"
    with pytest.raises(UserError, match=words):
        check_labels("mine", Y, names)


def test_a_graph_without_edges_is_allowed_with_a_notice() -> None:
    with pytest.warns(UserNotice, match="^mine: the graph has no edges"):
        check_graph(**GOOD | {"edges": np.zeros((2, 0), dtype=int)})


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float64])
def test_features_of_any_kind_of_number_pass(dtype: type) -> None:
    check_graph(**GOOD | {"x": np.ones((8, 2), dtype=dtype)})


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (masks([], [1, 4], [2, 5]), "mine: the split has no train nodes; add some"),
        (masks([0, 3], [1, 4], []), "mine: the split has no test nodes; add some"),
        (masks([0, 3], [3, 4], [2, 5]), "mine: 1 nodes are in more than one part .* first node 3"),
        (masks([0, 3], [1, 4], [0, 1]), "mine: 2 nodes are in more than one part .* first node 0"),
        (masks([0, 1], [3, 4], [2, 5]), "mine: class 'dog' has no training node in the given"),
        (masks([0, 3], [1, 7], [2, 5]), "mine: 1 nodes of the val split have no label"),
        (Split(*np.ones((3, 5), dtype=bool)), r"mine: the train mask has shape \(5,\), not \(8,\)"),
    ],
)
def test_a_bad_split_is_told_in_one_line(split: Split, message: str) -> None:
    y = np.where(np.arange(8) == 7, -1, Y)
    with pytest.raises(UserError, match=message) as caught:
        check_split("mine", split, y, ["cat", "dog"], given=True)
    assert "\n" not in str(caught.value)


def test_a_drawn_split_without_a_part_asks_for_more_labels() -> None:
    with pytest.raises(UserError, match="no val nodes; label more nodes, or give a split"):
        check_split("mine", masks([0, 3], [], [2]), Y, ["cat", "dog"], given=False)


@pytest.mark.parametrize("split", [-1, 1.0, True, "0", None])
def test_a_split_number_is_a_whole_number_from_0(split: Any) -> None:
    raw = RawGraph("mine", GOOD["edges"], GOOD["x"], Y, ["cat", "dog"], "a test")
    message = "^The 'split' parameter must be an int of at least 0. Got .*$"
    with pytest.raises(UserError, match=message):
        finish(raw, split)


def test_finish_gives_the_form_that_other_rooms_rely_on() -> None:
    edges = np.array([[0, 0, 1, 1, 5], [1, 1, 0, 1, 6]])
    given = masks([0, 3], [1, 4], [2, 5])
    raw = RawGraph("mine", edges, GOOD["x"], Y, ["cat", "dog"], "a test", node_ids=list("abcdefgh"))
    data = finish(replace(raw, rule=GivenSplit(given.train, given.val, given.test)), split=3)
    assert data.edge_index.tolist() == [[0, 1, 5, 6], [1, 0, 6, 5]]
    assert (data.train_mask.numpy() == given.train).all()
    assert data.split_hash == given.digest()
    assert (data.name, data.source, data.metric, data.split) == ("mine", "a test", "accuracy", 3)
    assert (data.label_names, data.node_ids) == (["cat", "dog"], list("abcdefgh"))
