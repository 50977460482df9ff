"""Every mask equals its definition in DESIGN's table, on any graph."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from graphs import any_graphs, random_graph
from m3dphormer.errors import UserError, UserNotice
from m3dphormer.masks import Mask, c1, c2, c3, c4, class_members, g1, g2, g3, l1, l2

pytestmark = pytest.mark.filterwarnings("ignore:g3. class")  # drawn graphs often lack one


@st.composite
def clustered(draw: st.DrawFn) -> tuple[Data, Tensor]:
    """A graph and a partition of it without gaps."""
    data = draw(any_graphs())
    n = data.num_nodes
    wild = draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    return data, torch.tensor(wild).unique(return_inverse=True)[1]


def define(size: int, holds: object) -> Tensor:
    """Write the definition out pair by pair."""
    rows = [[bool(holds(u, v)) for v in range(size)] for u in range(size)]  # type: ignore[operator]
    return torch.tensor(rows).reshape(size, size)


def linked(data: Data) -> set[tuple[int, int]]:
    pairs = [tuple(pair) for pair in data.edge_index.T.tolist()]
    return {*pairs, *((v, u) for u, v in pairs), *((u, u) for u in range(data.num_nodes))}


def agrees(mask: Mask, dense: Tensor) -> None:
    assert torch.equal(mask.to_dense(), dense)
    assert mask.nnz == int(dense.sum())
    csr = mask.to_csr()
    assert csr.indptr.tolist() == [0, *dense.sum(1).cumsum(0).tolist()]
    assert torch.equal(torch.stack([csr.rows, csr.indices]), dense.nonzero().T)
    whole = mask.layout.total
    for region in mask.regions:  # pairs by ranges of rows are all the pairs
        parts = [region.pairs(mask.layout, at, at + 3) for at in range(0, whole, 3)]
        one_go = torch.stack(region.pairs(mask.layout)).T.tolist()
        assert sorted(torch.cat([torch.stack(p) for p in parts], 1).T.tolist()) == sorted(one_go)
        assert len(one_go) == region.nnz(mask.layout)


@given(any_graphs())
def test_l2_is_the_neighbours_and_the_node_itself(data: Data) -> None:
    edges = linked(data)
    agrees(l2(data), define(data.num_nodes, lambda u, v: (u, v) in edges))


@given(any_graphs(), st.integers(1, 4))
def test_l1_is_everyone_within_k_hops(data: Data, hops: int) -> None:
    edges, n = linked(data), data.num_nodes
    within = [{u} for u in range(n)]
    for _ in range(hops):
        within = [{w for v in reached for w in range(n) if (v, w) in edges} for reached in within]
    agrees(l1(data, hops), define(n, lambda u, v: v in within[u]))
    if hops == 1:
        assert l1(data, 1) == l2(data)


@given(clustered())
def test_c1_is_cluster_nodes_among_themselves(sample: tuple[Data, Tensor]) -> None:
    data, cluster = sample
    n, p = data.num_nodes, int(cluster.max()) + 1
    agrees(c1(data, cluster), define(n + p, lambda u, v: u >= n and v >= n))


@given(clustered())
def test_c2_is_a_cluster_node_and_any_real_node(sample: tuple[Data, Tensor]) -> None:
    data, cluster = sample
    n, p = data.num_nodes, int(cluster.max()) + 1
    agrees(c2(data, cluster), define(n + p, lambda u, v: u >= n > v))


@given(clustered())
def test_c3_is_nodes_of_the_same_cluster(sample: tuple[Data, Tensor]) -> None:
    data, cluster = sample
    agrees(c3(data, cluster), define(data.num_nodes, lambda u, v: cluster[u] == cluster[v]))


@given(clustered(), st.booleans())
def test_c4_is_the_node_its_cluster_node_and_the_members(
    sample: tuple[Data, Tensor], self_loops: bool
) -> None:
    data, cluster = sample
    n, p = data.num_nodes, int(cluster.max()) + 1

    def holds(u: int, v: int) -> bool:
        if u < n:
            return v == u or v == n + int(cluster[u])
        return (v < n and n + int(cluster[v]) == u) or (self_loops and v == u)

    mask = c4(data, cluster, self_loops=self_loops)
    agrees(mask, define(n + p, holds))
    assert mask.nnz == 3 * n + (p if self_loops else 0)


@given(any_graphs())
def test_g1_is_everyone(data: Data) -> None:
    agrees(g1(data), define(data.num_nodes, lambda u, v: True))


@given(any_graphs(), st.integers(1, 3))
def test_g2_is_real_and_virtual_nodes_both_ways(data: Data, virtual: int) -> None:
    n = data.num_nodes
    agrees(g2(data, virtual), define(n + virtual, lambda u, v: (u < n) != (v < n)))


@given(any_graphs())
def test_g3_is_every_class_node_and_the_training_nodes(data: Data) -> None:
    n, classes = data.num_nodes, len(data.label_names)

    def holds(u: int, v: int) -> bool:
        if u < n:
            return v >= n
        return v < n and bool(data.train_mask[v]) and n + int(data.y[v]) == u

    mask = g3(data)
    agrees(mask, define(n + classes, holds))
    assert mask.nnz == n * classes + int(data.train_mask.sum())


@given(any_graphs())
def test_g3_does_not_change_with_labels_outside_the_training_set(data: Data) -> None:
    before = g3(data)
    data.y[~data.train_mask] = (data.y[~data.train_mask] + 1) % len(data.label_names)
    assert g3(data) == before


def test_class_nodes_of_a_class_share_its_training_nodes_along_their_features() -> None:
    data = random_graph(60, 3)
    members, trained = class_members(data, 3), data.train_mask
    assert torch.equal(members >= 0, trained)
    assert torch.equal(members[trained] // 3, data.y[trained])
    for label in range(3):
        inside = trained & (data.y == label)
        sizes = torch.bincount(members[inside] - 3 * label, minlength=3)
        assert int(sizes.max() - sizes.min()) <= 1
        x = data.x[inside].double()
        direction = torch.linalg.svd(x - x.mean(0)).Vh[0]
        along = (x - x.mean(0)) @ direction
        parts = [along[members[inside] == 3 * label + part] for part in range(3)]
        parts = sorted(parts, key=lambda part: float(part.mean()))
        assert parts[0].max() < parts[1].min()
        assert parts[1].max() < parts[2].min()
    order = torch.randperm(60)
    moved = Data(x=data.x[order], y=data.y[order], train_mask=trained[order], num_nodes=60)
    assert torch.equal(class_members(moved, 3), members[order])


def test_g3_with_several_class_nodes_is_those_members() -> None:
    data = random_graph(60, 3)
    mask, members = g3(data, 2), class_members(data, 2)
    dense = mask.to_dense()
    assert mask.name == "g3(classes=3, class_nodes=2)"
    assert dense.shape == (66, 66)
    assert dense[:60, 60:].all()
    assert torch.equal(dense[60:, :60], members[None, :] == torch.arange(6)[:, None])
    seen = mask.restrict(queries="nodes").label_consistency(data)
    known = data.train_mask
    torch.testing.assert_close(seen[known], torch.full_like(seen[known], 1 / 3))


def test_a_class_without_training_node_has_an_empty_row_and_is_told() -> None:
    data = random_graph()
    data.train_mask = data.train_mask & (data.y != 1)
    with pytest.warns(UserNotice, match="g3: class '1' has no training node"):
        mask = g3(data)
    assert mask.to_dense()[60:].sum(1).tolist()[1] == 0


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda data: l1(data, 0), "'hops' parameter must be an int of at least 1. Got 0"),
        (lambda data: l1(data, 1.5), "'hops' parameter must be an int"),
        (lambda data: g3(data, 0), "'class_nodes' parameter must be an int of at least 1. Got 0"),
        (lambda data: g2(data, 0), "'virtual' parameter must be an int of at least 1. Got 0"),
        (lambda data: c3(data, torch.arange(60) * 2), "no node is in cluster 1"),
        (lambda data: c3(data, torch.arange(61)), r"shape \(61,\) for 60 nodes"),
        (lambda data: g3(Data(num_nodes=5, train_mask=torch.ones(5).bool())), "has no labels"),
        (lambda data: l2(Data(edge_index=torch.tensor([[9], [0]]), num_nodes=5)), "names node 9"),
    ],
)
def test_bad_parameters_are_told_in_one_line(build: object, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        build(random_graph())  # type: ignore[operator]
    assert "\n" not in str(caught.value)
