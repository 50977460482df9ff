from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from graphs import random_graph, two_masks
from m3dphormer.errors import UserError
from m3dphormer.masks import Layout, c4, g3, l2, mask


def test_widening_keeps_every_pair_between_the_same_nodes() -> None:
    data = random_graph()
    narrow = g3(data)
    wide = narrow.widen(Layout(nodes=60, clusters=7))
    n = data.num_nodes
    at = torch.cat([torch.arange(n), torch.arange(n + 7, n + 10)])
    assert torch.equal(wide.to_dense()[at][:, at], narrow.to_dense())
    assert wide.nnz == narrow.nnz == int(wide.to_dense().sum())


def test_layouts_of_different_graphs_are_refused() -> None:
    with pytest.raises(UserError, match="60 and 61 nodes"):
        l2(random_graph(60)).layout | l2(random_graph(61)).layout


def test_density_counts_only_the_roles_in_use() -> None:
    data = random_graph()
    assert l2(data).widen(Layout(nodes=60, classes=3)).density == l2(data).nnz / 60**2
    assert c4(data, clusters=6).density == 3 * 60 / 66**2


def test_the_name_tells_the_parameters() -> None:
    data = random_graph()
    assert repr(c4(data, clusters=6, self_loops=True)) == (
        "Mask(c4(clusters=6, self_loops=True), 66 rows, 186 non-zeros)"
    )


def test_a_dense_view_past_the_limit_is_refused_with_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mask, "DENSE_LIMIT", 50)
    with pytest.raises(UserError, match=r"60 x 60 entries .*to_csr"):
        l2(random_graph()).to_dense()


@pytest.mark.filterwarnings("ignore::m3dphormer.errors.UserNotice")
@settings(deadline=None, max_examples=60)
@given(two_masks())
def test_the_keys_of_a_row_are_those_of_the_dense_view(pair: tuple[mask.Mask, mask.Mask]) -> None:
    for one in pair:
        for row, seen in enumerate(one.to_dense()):
            assert torch.equal(one.keys(row), seen.nonzero().squeeze(1))


def test_the_csr_is_made_once() -> None:
    one = l2(random_graph())
    assert one.to_csr() is one.to_csr()
