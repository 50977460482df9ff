"""Composition of masks is composition of their dense forms."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from graphs import random_graph, two_masks
from m3dphormer.errors import UserError
from m3dphormer.masks import Mask, c1, c3, c4, g1, g2, g3, l1, l2

pytestmark = pytest.mark.filterwarnings("ignore:g3. class")  # drawn graphs often lack one


@given(two_masks())
def test_union_and_intersection_are_those_of_the_dense_forms(pair: tuple[Mask, Mask]) -> None:
    left, right = pair
    layout = left.layout | right.layout
    a, b = left.widen(layout).to_dense(), right.widen(layout).to_dense()
    for composed, dense in ((left | right, a | b), (left & right, a & b)):
        assert torch.equal(composed.to_dense(), dense)
        assert composed.nnz == int(dense.sum())


@given(two_masks())
def test_equality_is_equality_of_layout_and_dense_form(pair: tuple[Mask, Mask]) -> None:
    left, right = pair
    same = left.layout == right.layout and torch.equal(left.to_dense(), right.to_dense())
    assert (left == right) == same
    assert left == left
    assert (left | left) == left
    assert (left & left) == left
    assert (left | right) == (right | left)
    assert hash(left | left) == hash(left)
    assert left != "l2"


@given(two_masks(), st.data())
def test_restriction_keeps_the_chosen_rows_and_columns(
    pair: tuple[Mask, Mask], draw: st.DataObject
) -> None:
    mask, total = pair[0], pair[0].layout.total
    chosen = st.lists(st.booleans(), min_size=total, max_size=total)
    queries, keys = (torch.tensor(draw.draw(chosen)) for _ in range(2))
    expected = mask.to_dense() & queries[:, None] & keys[None, :]
    assert torch.equal(mask.restrict(queries, keys).to_dense(), expected)
    by_number = mask.restrict(queries.nonzero().squeeze(1), keys.nonzero().squeeze(1))
    assert torch.equal(by_number.to_dense(), expected)


def test_restriction_to_a_role() -> None:
    data = random_graph()
    real = c4(data, 6).restrict(queries="nodes")
    assert real.nnz == 2 * 60
    assert real.name == "c4(clusters=6)[queries=nodes]"
    assert c4(data, 6).restrict(queries="clusters", keys="nodes").nnz == 60


def test_a_whole_block_is_never_expanded() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=1_000_000)
    assert (g1(data) | l2(data)).nnz == 10**12
    assert (g1(data) & l2(data)).nnz == 10**6 + 4
    assert g1(data) == g1(data)
    assert g1(data).receptive_field().unique().tolist() == [999_999]
    assert g2(data, 2).receptive_field().unique().tolist() == [999_999]


def test_levels_and_names_of_compositions() -> None:
    data = random_graph()
    union, both = l2(data) | c3(data, 6), l2(data) & c3(data, 6)
    assert (union.name, union.level) == ("l2 | c3(clusters=6)", "cluster")
    assert (both.name, both.level) == ("l2 & c3(clusters=6)", "local")
    assert ((l2(data) | g1(data)) & c3(data, 6)).name == "(l2 | g1) & c3(clusters=6)"


def test_masks_of_different_graphs_do_not_combine() -> None:
    with pytest.raises(UserError, match="60 and 61 nodes"):
        l2(random_graph(60)) | l2(random_graph(61))
    with pytest.raises(UserError, match="6 and 7 clusters"):
        c1(random_graph(), 6) & c4(random_graph(), 7)


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        ("node", "must be one of nodes, clusters, classes, virtual. Got 'node'"),
        (torch.ones(59, dtype=torch.bool), "has 59 entries for 60 rows"),
        (torch.tensor([60]), "names rows outside 0 to 59"),
        (torch.tensor([-1]), "names rows outside 0 to 59"),
    ],
)
def test_bad_restrictions(queries: str | Tensor, words: str) -> None:
    with pytest.raises(UserError, match=words):
        l2(random_graph()).restrict(queries=queries)  # type: ignore[arg-type]


def test_l1_grows_with_hops_until_it_is_the_component() -> None:
    data = random_graph()
    narrow, wide = l1(data, 2), l1(data, 3)
    assert (narrow & wide) == narrow
    assert (narrow | wide) == wide
    assert l1(data, 59) == l1(data, 60)
    assert g3(data).layout.classes == 3
