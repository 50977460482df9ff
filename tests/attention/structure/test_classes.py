"""Rewrites 1 and 2: class nodes without projections of all nodes, against the plain expert."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from graphs import random_graph
from m3dphormer import attend, masks
from m3dphormer.attention import native
from m3dphormer.attention.dropout import Dropout, keywords
from m3dphormer.attention.structure.classes import by_queries, by_scores
from m3dphormer.attention.structure.forms import DotWeights, by_head
from m3dphormer.attention.structure.mix import Blend
from m3dphormer.attention.structure.read import read

pytestmark = [
    pytest.mark.skipif(native.library() is None, reason="the kernels are not built"),
    pytest.mark.filterwarnings("ignore:g3. class"),
]


@pytest.mark.parametrize("build", [by_scores, by_queries])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("empty", [False, True])
def test_both_forms_equal_the_reference(
    build: object, bias: bool, heads: int, p: float, empty: bool
) -> None:
    torch.manual_seed(0)
    data = random_graph(900, 3)
    if empty:
        data.train_mask = data.train_mask & (data.y != 1)
    mask = masks.g3(data).widen(masks.c4(data, 5).layout | masks.g3(data).layout)
    layers = [nn.Linear(12, 12, bias=bias).double() for _ in range(3)]
    z = torch.randn(mask.layout.total, 12, dtype=torch.float64, requires_grad=True)
    drop = Dropout(p, 5, 2) if p else None

    form = build(DotWeights(*layers, heads), mask, z[mask.layout.rows("classes")], drop)  # type: ignore[operator]
    ours = torch.zeros_like(z)
    for start, answer in form.finish(read(z, form.reads, form.pools)):
        rows = answer.rows() if isinstance(answer, Blend) else answer
        ours = ours.index_add(0, torch.arange(start, start + len(rows)), rows)

    q, k, v = (by_head(layer(z), heads) for layer in layers)
    law = attend(q, k, v, mask, scheme="reference", **keywords(drop)).flatten(1)
    torch.testing.assert_close(ours, law, rtol=1e-9, atol=1e-10)

    # A key's bias cancels in the class rows, but real rows see it.
    given: list[Tensor] = [z, *(p for layer in layers for p in layer.parameters())]
    weight = torch.randn_like(law)
    for one, other in zip(
        torch.autograd.grad((ours * weight).sum(), given),
        torch.autograd.grad((law * weight).sum(), given),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)
