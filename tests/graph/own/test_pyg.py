"""A PyG Data of the user's own, or one finished before, which must pass through unchanged."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph.own.arrays import from_arrays
from m3dphormer.graph.own.pyg import from_data

N = 10
TRAIN, VAL, TEST = (
    torch.isin(torch.arange(N), torch.tensor(part)) for part in ([0, 1, 2], [3, 4], [5, 6])
)


def own(**attributes: Any) -> Data:
    return Data(
        **{
            "x": torch.arange(2.0 * N).reshape(N, 2),
            "edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]]),
            "y": torch.tensor([0, 1] * 5),
        }
        | attributes
    )


def same(one: Data, other: Data) -> bool:
    def equal(a: Any, b: Any) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) else bool(a == b)

    keys = set(one.keys())
    return keys == set(other.keys()) and all(equal(one[key], other[key]) for key in keys)


def test_a_plain_data_gets_a_stratified_split_and_the_form_of_load() -> None:
    data = from_data(own())
    assert data.train_mask.sum() == 6
    assert data.label_names == ["0", "1"]
    assert data.edge_index.shape == (2, 6)
    assert (data.name, data.source, data.metric) == ("data", "PyG Data in memory", "accuracy")


@pytest.mark.parametrize("split", [0, 3])
@pytest.mark.parametrize("ids", [None, [f"n{i}" for i in range(N)]])
def test_a_finished_data_passes_through_unchanged(split: int, ids: list[str] | None) -> None:
    y = ["b", "a", None, "b", "a", "b", "a", "b", "a", "b"]
    edges = [[0, 1, 2, 2], [1, 2, 3, 2]]
    names = ["z", "a", "b"]
    data = from_arrays(np.eye(N), edges, y, ids=ids, label_names=names, name="mine", split=split)
    data.metric, data.source = "f1", "a friend"
    data.truth = torch.arange(N)
    assert same(from_data(data), data)
    assert same(from_data(from_data(data)), data)


def test_the_input_stays_as_it_is() -> None:
    data = own(train_mask=TRAIN, val_mask=VAL, test_mask=TEST, truth=torch.arange(N))
    before = copy.deepcopy(data)
    made = from_data(data)
    for key in ("x", "edge_index", "y", "truth", "train_mask"):
        made[key] = made[key].logical_not_() if made[key].dtype == torch.bool else made[key].add_(1)
    assert same(data, before)


def test_names_ids_metric_and_source_are_kept_unless_given_anew() -> None:
    kept = {"label_names": ["no", "yes"], "node_ids": list("abcdefghij")}
    data = own(name="hers", source="disk", metric="roc_auc", **kept)
    first, second = from_data(data), from_data(data, name="mine", source="file a.pt")
    assert (first.name, first.source, first.metric) == ("hers", "disk", "roc_auc")
    assert (second.name, second.source, second.metric) == ("mine", "file a.pt", "roc_auc")
    assert (first.label_names, first.node_ids) == (kept["label_names"], kept["node_ids"])


def test_one_mask_a_part_is_the_split() -> None:
    data = from_data(own(train_mask=TRAIN, val_mask=VAL.byte(), test_mask=TEST), split=2)
    assert torch.equal(data.val_mask, VAL)
    assert data.split == 2


def test_several_masks_a_part_are_several_splits() -> None:
    masks = {
        f"{part}_mask": torch.stack([mask, mask.flip(0)], dim=1)
        for part, mask in (("train", TRAIN), ("val", VAL), ("test", TEST))
    }
    assert torch.equal(from_data(own(**masks), split=1).test_mask, TEST.flip(0))
    with pytest.raises(UserError, match="Split 2 does not exist"):
        from_data(own(**masks), split=2)


def test_edge_weights_and_attributes_are_ignored_with_one_notice() -> None:
    with pytest.warns(UserNotice) as notices:
        data = from_data(own(edge_weight=torch.ones(3), edge_attr=torch.ones(3, 2)))
    assert [str(n.message) for n in notices] == [
        "data: edges carry no weights here; ignored edge_attr, edge_weight."
    ]
    assert "edge_weight" not in data


def test_a_data_without_features_gets_encodings() -> None:
    with pytest.warns(UserNotice, match="no features; degree and Laplacian"):
        assert from_data(own(x=None)).x.shape[0] == N


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (own(y=None), "data: the Data has no y. Found edge_index, x"),
        (own(edge_index=None), "data: the Data has no edge_index. Found x, y"),
        (own(y=torch.ones(N, 3)), "several labels a node are not supported"),
        (own(y=torch.rand(N)), "is neither a class number nor a name"),
        (own(y=torch.tensor([1])), "10 feature rows for 1 labels"),
        (own(edge_index=torch.tensor([[0], [N]])), "edges name nodes that do not exist"),
        (own(train_mask=TRAIN), "the split has no val mask"),
        (own(node_ids=[1, "1", *"abcdefgh"]), "data: two ids read '1' as text"),
        (own(label_names=["a", "a"]), "data: two classes have the label name 'a'"),
        (HeteroData(), "The 'data' parameter must be one graph, .*Data. Got HeteroData"),
        (Batch.from_data_list([own(), own()]), "must be one graph, .* Got a batch of graphs"),
        (own(batch=torch.arange(N) // 5), "must be one graph, .* Got a batch of graphs"),
        ([own()], "must be one graph, .* Got list"),
    ],
)
def test_other_data_is_refused_in_one_line(data: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        from_data(data)
    assert "\n" not in str(caught.value)


def test_a_graph_to_predict_on_needs_no_labels_and_keeps_none() -> None:
    labelled = from_data(own(train_mask=TRAIN, val_mask=VAL, test_mask=TEST), labels=False)
    for data in (labelled, from_data(own(y=None), labels=False)):
        assert data.y.tolist() == [-1] * N
        assert data.label_names == []
        assert not (data.train_mask | data.val_mask | data.test_mask).any()
    assert labelled.graph_hash == from_data(own()).graph_hash
    with pytest.raises(UserError, match="no node has a label"):
        from_data(labelled)


def test_a_finished_data_remembers_that_its_features_are_encodings() -> None:
    with pytest.warns(UserNotice, match="no features"):
        data = from_data(own(x=None))
    assert from_data(data).encodings
    assert not from_data(own()).encodings
