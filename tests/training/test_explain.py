"""What a node attends to adds up, has the user's names, and is what the network computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer import NodeClassifier, UserError

SMALL = {"hidden": 8, "layers": 2, "clusters": 4, "epochs": 3}


@pytest.fixture(scope="module")
def data() -> Data:
    data = random_graph()
    data.node_ids = [f"n{i}" for i in range(60)]
    return data


@pytest.fixture(scope="module", params=["official", "paper"])
def fitted(data: Data, request: pytest.FixtureRequest) -> NodeClassifier:
    return NodeClassifier(preset=request.param, **SMALL).fit(data)


def test_weights_sum_to_one_in_every_layer_expert_and_head(
    fitted: NodeClassifier, data: Data
) -> None:
    table = fitted.explain(data, "n7", top=None)
    assert list(table)[:5] == ["layer", "expert", "kind", "key", "weight"]
    sums = table.groupby(["layer", "expert"])[["weight", "head_1", "head_2"]].sum()
    assert sums.index.tolist() == [(i, name) for i in (1, 2) for name in ("c4", "g3", "l2")]
    assert np.allclose(sums, 1, atol=1e-6)


def test_the_keys_are_those_of_the_masks_by_name(fitted: NodeClassifier, data: Data) -> None:
    table = fitted.explain(data, "n7", top=None)
    near = {f"n{v}" for u, v in data.edge_index.T.tolist() if u == 7} | {"n7"}
    assert set(table[table["expert"] == "l2"]["key"]) == near
    own = int(fitted.memory_.cluster[7])  # type: ignore[index]
    of_c4 = table[(table["expert"] == "c4") & (table["layer"] == 1)]
    assert set(zip(of_c4["kind"], of_c4["key"], strict=True)) == {("node", "n7"), ("cluster", own)}
    of_g3 = table[(table["expert"] == "g3") & (table["layer"] == 2)]
    assert sorted(of_g3["key"]) == ["0", "1", "2"]
    assert set(of_g3["kind"]) == {"class"}


def test_the_weights_are_what_the_layer_computes(fitted: NodeClassifier, data: Data) -> None:
    """The values under the weights, gated, rectified and added to the residual: the next state."""
    model, graph = fitted.model_, fitted._graph(data)
    with torch.no_grad():
        walk = model.states(graph)  # type: ignore[operator]
        states, gates = walk.states, walk.gates
        layer, h = model.layers[0], states[0]  # type: ignore[index]
        z, out = layer.norm(h), 0
        for i, one in enumerate(layer.attention(h, graph, 7)):
            starts = [graph.layout.start(role) for role in one.role]
            values = layer.experts[i].value(z).view(len(z), 2, -1)
            answer = torch.einsum("kh,khd->hd", one.weights, values[one.key + torch.tensor(starts)])
            out = out + gates[0][7, i] * answer.flatten()
        expected = torch.relu(out) + layer.residual(h[7])
    assert torch.allclose(states[1][7], expected, atol=1e-5)


def test_the_strongest_come_first(fitted: NodeClassifier, data: Data) -> None:
    whole, top = fitted.explain(data, "n7", top=None), fitted.explain(data, "n7", top=2)
    assert len(top) == 2 * 3 * 2
    for _, rows in whole.groupby(["layer", "expert"]):
        assert rows["weight"].is_monotonic_decreasing
    first = whole[(whole["layer"] == 1) & (whole["expert"] == "l2")].iloc[:2]
    assert first["key"].tolist() == top["key"].tolist()[:2]


def test_a_cluster_keeps_its_number_on_a_part_of_the_graph(
    fitted: NodeClassifier, data: Data
) -> None:
    alone = Data(x=data.x[[7, 8]], edge_index=torch.tensor([[0], [1]]), node_ids=["n7", "n8"])
    table = fitted.explain(alone, "n7")
    assert set(table[table["kind"] == "cluster"]["key"]) == {int(fitted.memory_.cluster[7])}  # type: ignore[index]


def test_an_unknown_node_is_one_clear_line(fitted: NodeClassifier, data: Data) -> None:
    with pytest.raises(UserError, match="random has no node 'x'; its first is 'n0'"):
        fitted.explain(data, "x")


@pytest.mark.parametrize("top", [-1, 0, "x", 1.5, True, np.int64(0)])
def test_fewer_keys_than_one_are_refused(fitted: NodeClassifier, data: Data, top: object) -> None:
    words = "The 'top' parameter must be an int of at least 1 or None. Got "
    with pytest.raises(UserError, match=words):
        fitted.explain(data, "n7", top=top)  # type: ignore[arg-type]


def test_the_count_of_keys_may_be_a_scalar_of_numpy(fitted: NodeClassifier, data: Data) -> None:
    assert fitted.explain(data, "n7", top=np.int64(2)).equals(fitted.explain(data, "n7", top=2))  # type: ignore[arg-type]


def test_without_ids_a_node_is_its_position() -> None:
    data = random_graph()
    table = NodeClassifier(**SMALL).fit(data).explain(data, 0)
    assert table[table["expert"] == "l2"]["key"].tolist() == [0, 0]
