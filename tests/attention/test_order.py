"""The order of the walk: close rows together, and the same numbers as without."""

from __future__ import annotations

import pytest
import torch

from graphs import random_graph
from m3dphormer import attend, attend_additive
from m3dphormer.attention import native, order
from m3dphormer.masks import Mask, l2
from rows import power_law

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "SMALLEST", 1)
    monkeypatch.setattr(order, "ROWS_OF_A_PART", 4)


def test_rows_are_permuted_with_their_keys(small_parts: None) -> None:
    mask = l2(random_graph(60))
    csr, (indptr, indices, *_, places) = mask.to_csr(), order.index_of(mask)
    assert places is not None
    assert places.sort().values.equal(torch.arange(60))
    for place, row in enumerate(places):
        keys = csr.indices[csr.indptr[row] : csr.indptr[row + 1]]
        assert indices[indptr[place] : indptr[place + 1]].equal(keys)


def test_small_and_directed_masks_keep_their_order(small_parts: None) -> None:
    assert order.index_of(power_law(40))[4] is None  # not its own transpose
    assert order.index_of(l2(random_graph(6)))[4] is None


def results(mask: Mask, kind: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shape = (60, 4, 32) if kind == "dot" else (60, 4)
    given = [torch.randn(s, requires_grad=True) for s in (shape, shape, (60, 4, 32))]
    run = attend if kind == "dot" else attend_additive
    out = run(*given, mask, dropout=0.3, seed=1)
    return [out, *torch.autograd.grad(out.square().sum(), given)]


@pytest.mark.parametrize("kind", ["dot", "additive"])
def test_the_order_changes_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    plain = results(l2(random_graph(60)), kind)
    request.getfixturevalue("small_parts")
    for one, other in zip(plain, results(l2(random_graph(60)), kind), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_part_is_walked_in_the_order_of_the_whole(small_parts: None) -> None:
    whole = l2(random_graph(60))
    part = order.ordered_like(whole, whole.restrict(queries=torch.arange(0, 60, 2)))
    indptr, indices, _, seen_by, places = order.index_of(part)
    assert torch.equal(places, order.index_of(whole)[4])
    assert len(indices) == len(seen_by) == part.nnz
    for place, row in enumerate(places):
        assert indices[indptr[place] : indptr[place + 1]].tolist() == part.keys(int(row)).tolist()
