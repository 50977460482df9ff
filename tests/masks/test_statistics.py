"""Receptive field and label consistency against their definition, written out on dense masks."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from graphs import random_graph, two_masks
from m3dphormer.errors import UserError
from m3dphormer.masks import Mask, c1, c2, c3, c4, g1, g2, g3, l2

pytestmark = pytest.mark.filterwarnings("ignore:g3. class")  # drawn graphs often lack one


def reached(mask: Mask) -> list[set[int]]:
    """Other real nodes seen directly or through one virtual node."""
    n, dense = mask.layout.nodes, mask.to_dense()
    keys = [set(row.nonzero().squeeze(1).tolist()) for row in dense]
    out = []
    for u in range(n):
        through = [keys[w] for w in keys[u] if w >= n]
        out.append({v for v in keys[u].union(*through) if v < n} - {u})
    return out


@given(two_masks())
def test_receptive_field_counts_who_is_reached(pair: tuple[Mask, Mask]) -> None:
    mask = pair[0] | pair[1]
    assert mask.receptive_field().tolist() == [len(others) for others in reached(mask)]


@given(two_masks(), st.data(), st.booleans())
def test_label_consistency_is_the_share_of_the_own_class(
    pair: tuple[Mask, Mask], draw: st.DataObject, all_labels: bool
) -> None:
    mask = pair[0] | pair[1]
    n, classes = mask.layout.nodes, mask.layout.classes or 3
    y = torch.tensor(draw.draw(st.lists(st.integers(-1, classes - 1), min_size=n, max_size=n)))
    train = torch.tensor(draw.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    data = Data(y=y, train_mask=train, num_nodes=n)
    known = [int(c) if c >= 0 and (all_labels or train[u]) else None for u, c in enumerate(y)]
    dense = mask.to_dense()[:, mask.layout.rows("classes")]
    got = mask.label_consistency(data, all_labels=all_labels).tolist()
    for u, others in enumerate(reached(mask)):
        labels = [known[v] for v in others if known[v] is not None]
        labels += dense[u].nonzero().squeeze(1).tolist()  # class nodes are labelled keys
        if known[u] is None or not labels:
            assert math.isnan(got[u])
        else:
            assert got[u] == pytest.approx(labels.count(known[u]) / len(labels))


def test_c4_counts_like_c3_and_g2_like_g1() -> None:
    data = random_graph()
    assert torch.equal(c4(data, 6).receptive_field(), c3(data, 6).receptive_field())
    assert torch.equal(g2(data, 3).receptive_field(), g1(data).receptive_field())
    torch.testing.assert_close(
        c4(data, 6).label_consistency(data), c3(data, 6).label_consistency(data), equal_nan=True
    )


def test_a_real_node_that_sees_nobody_reaches_nobody() -> None:
    data = random_graph()
    for mask in (c1(data, 6), c2(data, 6)):
        assert mask.receptive_field().max() == 0
        assert mask.label_consistency(data).isnan().all()
    assert l2(data).receptive_field()[0] == 0  # node 0 is isolated


def test_training_labels_alone_count_unless_all_are_asked_for() -> None:
    data = random_graph()
    hidden = data.clone()
    hidden.y = torch.where(data.train_mask, data.y, (data.y + 1) % 3)
    torch.testing.assert_close(
        g3(data).label_consistency(data), g3(data).label_consistency(hidden), equal_nan=True
    )
    assert not torch.equal(
        l2(data).label_consistency(data, all_labels=True).nan_to_num(),
        l2(data).label_consistency(hidden, all_labels=True).nan_to_num(),
    )


def test_another_graph_is_refused() -> None:
    with pytest.raises(UserError, match="over 60 nodes, the graph has 61"):
        l2(random_graph(60)).label_consistency(random_graph(61))
