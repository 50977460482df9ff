"""Arrays of every kind: what is read, and what is refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph.own.arrays import from_arrays

X = np.arange(20, dtype=np.float32).reshape(10, 2)
EDGES = np.array([[0, 1, 2], [1, 2, 3]])
Y = np.array([0, 1] * 5)
TRAIN, VAL, TEST = (np.isin(np.arange(10), part) for part in ([0, 1, 2], [3, 4], [5, 6]))


@pytest.mark.parametrize(
    "x",
    [
        X,
        X.tolist(),
        X.astype(int),
        X.astype(object),
        sp.csr_matrix(X),
        torch.from_numpy(X).to_sparse(),
        torch.from_numpy(X).bfloat16().requires_grad_(),
    ],
)
def test_features_of_any_kind(x: Any) -> None:
    data = from_arrays(x, EDGES, Y)
    assert data.x.tolist() == X.tolist()
    assert not data.x.requires_grad


def test_one_feature_a_node_is_a_column_and_none_is_encoded() -> None:
    assert from_arrays(X[:, 0], EDGES, Y).x.tolist() == X[:, :1].tolist()
    for none in (None, np.zeros((10, 0))):
        with pytest.warns(UserNotice, match="no features; degree and Laplacian"):
            assert from_arrays(none, EDGES, Y).x.shape[0] == 10


@pytest.mark.parametrize(
    "edges",
    [
        EDGES,
        EDGES.T,
        EDGES.tolist(),
        [(0, 1), (1, 2), (2, 3)],
        EDGES.astype(np.uint8),
        EDGES * 1.0,
        torch.from_numpy(EDGES),
    ],
)
def test_edges_either_way_round(edges: Any) -> None:
    data = from_arrays(X, edges, Y)
    assert data.edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]


@pytest.mark.parametrize("edges", [[], np.zeros((2, 0)), np.zeros((0, 2)), torch.empty(2, 0)])
def test_no_edges_either_way_round(edges: Any) -> None:
    with pytest.warns(UserNotice, match="the graph has no edges"):
        assert from_arrays(X, edges, Y).edge_index.shape == (2, 0)


def test_two_edges_that_read_the_same_either_way_are_not_ambiguous() -> None:
    assert from_arrays(X, [[0, 1], [1, 2]], Y).edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


@pytest.mark.parametrize(
    ("y", "names", "numbers"),
    [
        (Y, ["0", "1"], [0, 1] * 5),
        (torch.from_numpy(Y)[:, None], ["0", "1"], [0, 1] * 5),
        ([5, 7, -1, 5, 7, 5, 7, 5, 7, 5], ["5", "7"], [0, 1, -1, 0, 1, 0, 1, 0, 1, 0]),
        ([5, 7, None, 5, 7, 5, 7, 5, 7, 5], ["5", "7"], [0, 1, -1, 0, 1, 0, 1, 0, 1, 0]),
        ([5, 7, np.nan, 5, 7, 5, 7, 5, 7, 5], ["5", "7"], [0, 1, -1, 0, 1, 0, 1, 0, 1, 0]),
        (["b", "a"] * 5, ["a", "b"], [1, 0] * 5),
        ([True, False] * 5, ["False", "True"], [1, 0] * 5),
    ],
)
def test_labels_of_any_kind(y: Any, names: list[str], numbers: list[int]) -> None:
    data = from_arrays(X, EDGES, y)
    assert (data.label_names, data.y.tolist()) == (names, numbers)


def test_label_names_and_ids_come_back() -> None:
    ids = [(i, "x") for i in range(10)]
    data = from_arrays(X, EDGES, Y, label_names=["dog", "cat", "bird"], ids=ids, name="pets")
    assert (data.label_names, data.node_ids) == (["dog", "cat", "bird"], ids)
    assert data.y.tolist() == Y.tolist()
    assert (data.name, data.source) == ("pets", "arrays in memory")
    assert from_arrays(X, EDGES, Y, ids=np.arange(10) + 5).node_ids == list(range(5, 15))


def test_masks_are_the_split() -> None:
    for kind in (lambda mask: mask, torch.from_numpy, np.ndarray.tolist, lambda m: m.astype(int)):
        data = from_arrays(X, EDGES, Y, train=kind(TRAIN), val=kind(VAL), test=kind(TEST))
        assert data.train_mask.tolist() == TRAIN.tolist()
        assert data.test_mask.tolist() == TEST.tolist()


def test_several_masks_are_several_splits() -> None:
    two = [np.stack([mask, mask[::-1]], axis=1) for mask in (TRAIN, VAL, TEST)]
    masks = dict(zip(("train", "val", "test"), two, strict=True))
    assert from_arrays(X, EDGES, Y, **masks, split=1).val_mask.tolist() == VAL[::-1].tolist()
    with pytest.raises(UserError, match="Split 2 does not exist: the file has 2"):
        from_arrays(X, EDGES, Y, **masks, split=2)


def test_what_was_given_stays_as_it_is() -> None:
    x, edges, y = torch.from_numpy(X.copy()), torch.from_numpy(EDGES.copy()), torch.tensor(Y)
    data = from_arrays(x, edges, y)
    for tensor in (data.x, data.y, data.edge_index):
        tensor += 1
    assert torch.equal(x, torch.from_numpy(X))
    assert torch.equal(edges, torch.from_numpy(EDGES))
    assert torch.equal(y, torch.tensor(Y))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": [[1, 2], [3]]}, "features of unequal length: row 1 has 1 values, row 0 has 2"),
        ({"x": [["a", "b"]] * 10}, "features must be numbers"),
        ({"x": [[1, {}]] * 10}, "features must be numbers"),
        ({"x": [[1, None]] * 10}, "feature values are NaN or infinite, first at node 0, column 1"),
        ({"x": X[:9]}, "9 feature rows for 10 labels"),
        ({"edges": np.ones((4, 3))}, r"'edges' parameter must .*\[2, m\] or \[m, 2\].*\[4, 3\]"),
        ({"edges": [0, 1]}, r"'edges' parameter must .* Got shape \[2\]"),
        ({"edges": [[0, 1], [2, 3]]}, r"must tell rows from columns, which \[2, 2\] does not"),
        ({"edges": [[0, 1, 2], [1, 2]]}, "edges of unequal length: row 1 has 2 values"),
        ({"edges": EDGES + 0.5}, "edges must be node positions, whole numbers .* Got float64"),
        ({"edges": EDGES.astype(str)}, "edges must be node positions, whole numbers .* Got <U"),
        ({"edges": EDGES + 8}, "2 edges name nodes that do not exist, first 9-10"),
        ({"y": None}, "labels are None; give one a node, -1 where there is none"),
        ({"y": np.zeros((10, 3))}, r"several labels a node are not supported. Got shape \[10, 3\]"),
        ({"y": 1}, r"labels must be one a node, of shape \[N\]"),
        ({"y": [0, 1, -2] + [0] * 7}, "label -2 is negative"),
        ({"y": Y / 2}, "label 0.5 is neither a class number nor a name"),
        ({"y": Y, "label_names": ["a"]}, "label '1' is not one of the 1 label names"),
        ({"label_names": ["a", "a"]}, "two classes have the label name 'a'; names must differ"),
        ({"y": ["a", "b"] * 5, "label_names": ["a", "b", "a"]}, "two classes have the label name"),
        ({"ids": list("abcdefghia")}, "id 'a' is there twice"),
        ({"ids": [1, "1", *"abcdefgh"]}, "two ids read '1' as text; ids must differ there too"),
        ({"ids": list("abc")}, "3 node ids for 10 nodes"),
        ({"train": TRAIN}, "the split has no val mask; give train, val and test, or none"),
        ({"train": [0, 1], "val": VAL, "test": TEST}, r"train mask must have shape \[10\] or"),
        ({"train": TRAIN, "val": VAL * 2, "test": TEST}, "val mask must be True or False a node"),
        ({"train": TRAIN[:, None], "val": VAL, "test": TEST}, "masks differ in shape"),
        ({"train": VAL, "val": VAL, "test": TEST}, "in more than one part"),
    ],
)
def test_bad_arrays_are_refused_in_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        from_arrays(**{"x": X, "edges": EDGES, "y": Y} | wrong)
    assert "\n" not in str(caught.value)
