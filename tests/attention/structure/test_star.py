"""Attention over a star is attention over its mask."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphs import random_graph
from m3dphormer import attend, masks
from m3dphormer.attention import native
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure.star import attend_star, star_of
from m3dphormer.masks import Layout, Mask

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")


def leaves(mask: Mask, heads: int, width: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (mask.layout.total, heads, width)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for _ in range(3)
    ]


def with_empty_cluster(mask: Mask) -> Mask:
    wider = Layout(mask.layout.nodes, mask.layout.clusters + 1)
    regions = tuple(r for r in mask.regions if (r.queries, r.keys) != ("clusters", "clusters"))
    return Mask(mask.name, mask.level, wider, regions)


@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("clusters", [1, 7, 300])
@pytest.mark.parametrize(("heads", "width"), [(1, 1), (3, 5), (2, 32)])
@pytest.mark.parametrize("p", [0.0, 0.4])
def test_star_equals_the_reference(
    self_loops: bool, clusters: int, heads: int, width: int, p: float
) -> None:
    mask = masks.c4(random_graph(300), clusters, self_loops=self_loops)
    if not self_loops:
        mask = with_empty_cluster(mask)
    star = star_of(mask)
    assert star is not None
    given = leaves(mask, heads, width)
    ours = attend_star(*given, star, Dropout(p, 5, 2) if p else None)
    law = attend(*given, mask, scheme="reference", dropout=p, seed=5, call=2)
    torch.testing.assert_close(ours, law, rtol=1e-9, atol=1e-9)
    weight = torch.randn(law.shape, generator=torch.Generator().manual_seed(1), dtype=law.dtype)
    for one, other in zip(
        torch.autograd.grad((ours * weight).sum(), given),
        torch.autograd.grad((law * weight).sum(), given),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_large_scores_do_not_overflow() -> None:
    mask = masks.c4(random_graph(300), 7)
    star = star_of(mask)
    assert star is not None
    q, k, v = (1000 * t.detach() for t in leaves(mask, 2, 8))
    law = attend(q, k, v, mask, scheme="reference")
    torch.testing.assert_close(attend_star(q, k, v, star, None), law, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("threads", [2, 5])
def test_the_bits_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    mask = masks.c4(random_graph(3000), 3)
    star = star_of(mask)
    assert star is not None
    given = [t.detach().float().requires_grad_() for t in leaves(mask, 2, 8)]

    def run() -> list[Tensor]:
        out = attend_star(*given, star, Dropout(0.3, 1))
        return [out, *torch.autograd.grad(out.square().sum(), given)]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = run()
        torch.set_num_threads(threads)
        other = run()
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(left, right) for left, right in zip(one, other, strict=True))


def test_only_c4_is_a_star() -> None:
    data = random_graph(60)
    assert star_of(masks.c4(data, 6)) is not None
    assert star_of(masks.c4(data, 6, self_loops=True)) is not None
    others = (masks.l2(data), masks.c1(data, 6), masks.c2(data, 6), masks.c3(data, 6))
    unions = (masks.c4(data, 6) | masks.l2(data), masks.c4(data, 6) & masks.c3(data, 6))
    for mask in (*others, *unions, masks.g2(data), masks.g3(data)):
        assert star_of(mask) is None
