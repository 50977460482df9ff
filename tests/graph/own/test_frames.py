"""pandas frames and networkx graphs: what is read, what is ignored, what is refused."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph.own.frames import from_frames, from_networkx


def nodes(**columns: Any) -> pd.DataFrame:
    """Ten nodes a..j of two classes, with two features."""
    frame = {
        "id": list("abcdefghij"),
        "label": ["cat", "dog"] * 5,
        "age": range(10),
        "size": np.arange(10) / 2,
    }
    return pd.DataFrame(frame | columns)


def edges(*pairs: tuple[Any, Any], **columns: Any) -> pd.DataFrame:
    pairs = pairs or (("a", "b"), ("b", "c"), ("c", "a"))
    return pd.DataFrame(pairs, columns=["source", "target"]).assign(**columns)


def refused(call: Callable[[], object], *parts: str) -> None:
    """The call is refused in one line that holds all parts."""
    with pytest.raises(UserError) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line
    for part in parts:
        assert part in line


def test_columns_become_features_labels_and_ids() -> None:
    data = from_frames(nodes(), edges(), name="pets")
    assert data.x.tolist() == [[i, i / 2] for i in range(10)]
    assert data.y.tolist() == [0, 1] * 5
    assert data.label_names == ["cat", "dog"]
    assert data.node_ids == list("abcdefghij")
    assert data.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert (data.name, data.source) == ("pets", "pandas frames in memory")


def test_the_frames_stay_as_they_are() -> None:
    first, second = nodes(label=pd.Categorical(["cat", "dog"] * 5)), edges()
    from_frames(first, second)
    pd.testing.assert_frame_equal(first, nodes(label=pd.Categorical(["cat", "dog"] * 5)))
    pd.testing.assert_frame_equal(second, edges())


def test_the_index_of_a_frame_and_its_row_order_do_not_matter() -> None:
    data = from_frames(nodes().set_index(np.arange(10) * 7 % 10), edges())
    assert data.y.tolist() == [0, 1] * 5
    turned = from_frames(nodes()[::-1], edges())
    assert turned.y.flip(0).tolist() == data.y.tolist()
    assert turned.node_ids == data.node_ids[::-1]


@pytest.mark.parametrize(
    "ids",
    [
        list(range(100, 110)),
        [(i, i + 1) for i in range(10)],
        [frozenset({i}) for i in range(10)],
        [datetime.date(2020, 1, i + 1) for i in range(10)],
        [*range(5), *"abcde"],
        [float(i) for i in range(10)],
    ],
)
def test_ids_of_any_hashable_kind_come_back(ids: list[Any]) -> None:
    data = from_frames(nodes(id=ids), edges((ids[0], ids[7])))
    assert data.node_ids == ids
    assert data.edge_index.tolist() == [[0, 7], [7, 0]]


def test_whole_floats_find_whole_numbers() -> None:
    data = from_frames(nodes(id=range(10)), edges((0.0, 9.0)))
    assert data.edge_index.tolist() == [[0, 9], [9, 0]]


def test_a_missing_label_is_unlabelled_and_in_no_part() -> None:
    labels = [0, 1, np.nan, 0, 1, 0, 1, 0, 1, 0]
    data = from_frames(nodes(label=labels), edges())
    assert data.y.tolist() == [0, 1, -1, 0, 1, 0, 1, 0, 1, 0]
    assert data.label_names == ["0", "1"]
    assert not (data.train_mask | data.val_mask | data.test_mask)[2]


def test_a_split_column_is_the_split_and_may_leave_nodes_out() -> None:
    parts = ["train", "train", "val", "valid", "validation", "test", "test", "", None, np.nan]
    data = from_frames(nodes(split=parts), edges(), split=4)
    assert data.train_mask.nonzero().flatten().tolist() == [0, 1]
    assert data.val_mask.nonzero().flatten().tolist() == [2, 3, 4]
    assert data.test_mask.nonzero().flatten().tolist() == [5, 6]
    assert data.x.shape == (10, 2)


def test_without_a_split_column_the_split_is_stratified_60_20_20() -> None:
    data = from_frames(nodes(), edges())
    counts = [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)]
    assert counts == [6, 2, 2]
    assert data.y[data.train_mask].bincount().tolist() == [3, 3]
    assert from_frames(nodes(), edges(), split=1).split_hash != data.split_hash


@pytest.mark.parametrize(
    "column",
    [
        [True, False] * 5,
        pd.array([1, 0] * 5, dtype="Int64"),
        pd.array([True, False] * 5, dtype="boolean"),
        pd.Categorical([1, 0] * 5),
        np.array([True, False] * 5, dtype=object),
        ["1", "0"] * 5,
    ],
)
def test_anything_numeric_is_a_feature(column: Any) -> None:
    assert from_frames(nodes(age=column), edges()).x[:, 0].tolist() == [1, 0] * 5


def test_text_and_dates_are_ignored_with_one_notice_that_names_them_all() -> None:
    text = {"name": list("klmnopqrst"), "born": pd.Timestamp("2020-01-01")}
    with pytest.warns(UserNotice) as notices:
        data = from_frames(nodes(**text), edges())
    assert [str(n.message) for n in notices] == [
        "frames: nodes: text is no feature; ignored 'name', 'born'."
    ]
    assert data.x.shape == (10, 2)


def test_a_vector_column_is_expanded() -> None:
    vectors = [np.array([i, -i, 1]) for i in range(10)]
    data = from_frames(nodes(age=vectors), edges())
    assert data.x[3].tolist() == [3, -3, 1, 1.5]


def test_without_features_encodings_stand_in() -> None:
    with pytest.warns(UserNotice, match="no features; degree and Laplacian"):
        data = from_frames(nodes()[["id", "label"]], edges())
    assert torch.isfinite(data.x).all()


def test_further_edge_columns_are_ignored_with_a_notice() -> None:
    with pytest.warns(UserNotice, match=r"edges carry no weights here; ignored 'weight'\.$"):
        data = from_frames(nodes(), edges(weight=0.5))
    assert data.edge_index.shape == (2, 6)


def test_source_and_target_are_found_by_name_and_else_by_place() -> None:
    swapped = pd.DataFrame({"weight": [1.0], "target": ["b"], "source": ["a"]})
    with pytest.warns(UserNotice, match="ignored 'weight'"):
        data = from_frames(nodes(), swapped)
    unnamed = from_frames(nodes(), pd.DataFrame([["a", "b"]]))
    assert data.edge_index.tolist() == unnamed.edge_index.tolist() == [[0, 1], [1, 0]]


def test_no_edges_are_allowed_with_a_notice() -> None:
    with pytest.warns(UserNotice, match="the graph has no edges"):
        data = from_frames(nodes(), edges().iloc[:0])
    assert data.edge_index.shape == (2, 0)


@pytest.mark.parametrize(
    ("first", "second", "parts"),
    [
        (nodes().drop(columns="id"), edges(), ["'id' is missing", "'label', 'age', 'size'"]),
        (nodes().drop(columns="label"), edges(), ["'label' is missing", "'id', 'age', 'size'"]),
        (nodes(id=list("abcdebghij")), edges(), ["nodes row 5", "id 'b'", "row 1"]),
        (nodes(id=[*"abcdefghi", None]), edges(), ["nodes row 9", "id is missing"]),
        (nodes(id=[1, "1", *"cdefghij"]), edges((1, "c")), ["two ids read '1' as text"]),
        (nodes(id=[[i] for i in range(10)]), edges(), ["ids must be hashable"]),
        (nodes(split=["dev"] * 10), edges(), ["nodes row 0", "split 'dev'", "train, val or test"]),
        (nodes(split=1), edges(), ["nodes row 0", "split 1", "train, val or test"]),
        (nodes(split=""), edges(), ["the split has no train nodes"]),
        (nodes(age=[*range(9), "old"]), edges(), ["nodes row 9", "'age'", "node 'j'", "'old'"]),
        (nodes(age=[*range(9), np.nan]), edges(), ["nodes row 9", "'age'", "node 'j'", "NaN"]),
        (nodes(age=[*range(9), -np.inf]), edges(), ["nodes row 9", "'age'", "infinite"]),
        (nodes(age=[*range(9), 1e39]), edges(), ["nodes row 9", "'age'", "infinite"]),
        (nodes(age=np.nan), edges(), ["nodes row 0", "'age'", "NaN"]),
        (nodes(age=[[1, 2]] * 9 + [[1]]), edges(), ["unequal length", "node 'j' has 1 values"]),
        (nodes(age=[[1, 2]] * 9 + [None]), edges(), ["unequal length", "'age' of node 'j'"]),
        (nodes(age=[["x"]] * 10), edges(), ["column 'age' must hold numbers"]),
        (nodes(label="cat"), edges(), ["all labels are 'cat'"]),
        (nodes(label=None), edges(), ["no node has a label"]),
        (nodes(label=np.arange(10) / 4), edges(), ["label 0.25 is neither"]),
        (nodes().iloc[:0], edges().iloc[:0], ["the graph is empty"]),
        (nodes(), edges(("a", "b"), ("a", "z")), ["edges row 1", "no node has the id 'z'"]),
        (nodes(), edges(("a", None)), ["edges row 0", "an edge needs two ends"]),
        (nodes(), edges(("a", ["b"])), ["ends must be node ids", "list"]),
        (nodes(), edges()[["source"]], ["two columns, source and target", "'source'"]),
        (nodes(id=range(10)), edges(("0", "1")), ["0 (int)", "'0' (str)", "astype(str)"]),
        (nodes(id=list("0123456789")), edges((0, 1)), ["'0' (str)", "0 (int)", "astype(str)"]),
        (pd.concat([nodes(), nodes()[["age"]]], axis=1), edges(), ["column 'age' is there twice"]),
        ([["a", "cat"]], edges(), ["The 'nodes' parameter must be a pandas DataFrame. Got list."]),
        (nodes(), None, ["The 'edges' parameter must be a pandas DataFrame. Got NoneType."]),
    ],
)
def test_bad_frames_are_refused_in_one_line(first: Any, second: Any, parts: list[str]) -> None:
    refused(lambda: from_frames(first, second), *parts)


def pets() -> nx.Graph:
    graph = nx.path_graph(10)
    for node in graph:
        graph.nodes[node].update(label="cat" if node % 2 else "dog", x=[node, 1.0], age=node)
    return graph


def test_networkx_attributes_become_columns_and_vectors_are_expanded() -> None:
    data = from_networkx(pets())
    assert data.x.tolist() == [[i, 1, i] for i in range(10)]
    assert data.label_names == ["cat", "dog"]
    assert data.y.tolist() == [1, 0] * 5
    assert data.node_ids == list(range(10))
    assert data.edge_index.shape == (2, 18)
    assert (data.name, data.source) == ("networkx", "networkx graph in memory")


@pytest.mark.parametrize("name", [lambda i: (i, "x"), lambda i: i if i % 2 else str(i), str])
def test_networkx_nodes_of_any_kind_are_ids(name: Callable[[int], Any]) -> None:
    data = from_networkx(nx.relabel_nodes(pets(), name))
    assert data.node_ids == [name(i) for i in range(10)]
    assert torch.equal(data.edge_index, from_networkx(pets()).edge_index)


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_networkx_graphs_of_every_kind_give_the_same_edges(kind: type) -> None:
    assert torch.equal(from_networkx(kind(pets())).edge_index, from_networkx(pets()).edge_index)


def test_networkx_label_and_split_attributes_can_be_named() -> None:
    graph = pets()
    for node in graph:
        graph.nodes[node].update(club=node % 3, fold=["train", "val", "test", "train"][node // 3])
        del graph.nodes[node]["label"]
    data = from_networkx(graph, label="club", split_by="fold", name="clubs")
    assert data.label_names == ["0", "1", "2"]
    assert data.train_mask.nonzero().flatten().tolist() == [0, 1, 2, 9]
    assert data.x.shape == (10, 3)
    assert data.name == "clubs"


def test_networkx_attributes_called_id_or_source_take_no_ones_place() -> None:
    graph = pets()
    for node in graph:
        graph.nodes[node]["id"] = 100 + node
    nx.set_edge_attributes(graph, 5, "source")
    with pytest.warns(UserNotice, match="ignored 'attribute source'"):
        data = from_networkx(graph)
    assert data.node_ids == list(range(10))
    assert data.x[:, 3].tolist() == list(range(100, 110))


def test_networkx_nodes_without_the_label_are_unlabelled() -> None:
    graph = pets()
    del graph.nodes[4]["label"]
    assert from_networkx(graph).y[4] == -1


def test_networkx_edge_weights_are_ignored_with_one_notice() -> None:
    graph = pets()
    graph.edges[0, 1]["weight"] = 2.0
    with pytest.warns(UserNotice, match="ignored 'attribute weight'"):
        from_networkx(graph)


def test_networkx_graphs_that_cannot_be_used_are_refused_in_one_line() -> None:
    refused(lambda: from_networkx(pets(), label="kind"), "attribute 'kind'", "'label', 'x', 'age'")
    refused(lambda: from_networkx(nx.path_graph(3)), "attribute 'label'", "Found none")
    refused(lambda: from_networkx(nx.Graph()), "empty")
    refused(lambda: from_networkx([1]), "'graph' parameter must be a networkx graph. Got list.")
    gap = pets()
    del gap.nodes[4]["age"]
    refused(lambda: from_networkx(gap), "'age' of node 4")
    ragged = pets()
    ragged.nodes[4]["x"] = [1.0]
    refused(lambda: from_networkx(ragged), "unequal length", "node 4 has 1 values")
