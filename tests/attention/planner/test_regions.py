from __future__ import annotations

import torch
from torch import nn

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.attention.dual import dual_regions
from m3dphormer.attention.planner import Shape, plan_mask
from m3dphormer.attention.structure import AdditiveWeights, DotWeights


def test_the_plan_says_what_dual_and_fused_do_and_why() -> None:
    data = random_graph(60, 3)
    linear = [nn.Linear(16, 16) for _ in range(3)]
    weights = DotWeights(*linear, heads=2)
    mask = masks.g3(data)
    planned = plan_mask(mask, weights, Shape(2, 16, additive=False, dropped=True))
    regions = dual_regions(mask)
    assert [p.dual for p in planned] == ["sparse" if r.sparser(8) else "dense" for r in regions]
    assert {p.fused for p in planned} == {"class scores"}
    assert all("1/(3 d_h)" in p.why["dual"] and p.why["fused"] for p in planned)


def test_proposition_two_takes_the_form_that_keeps_less_where_it_is_clear() -> None:
    data = random_graph(400, degree=3)
    vectors = torch.randn(2, 2, 32)
    weights = AdditiveWeights(nn.Linear(64, 64), *vectors, nn.Linear(64, 64), 2)
    shape = Shape(2, 64, additive=True, dropped=False)
    (local,) = plan_mask(masks.l2(data), weights, shape)
    (full,) = plan_mask(masks.g1(data), weights, shape)
    assert local.dual == "sparse"
    assert local.sparse_bytes < local.dense_bytes
    assert full.dual == "dense"
    assert full.dense_bytes < full.sparse_bytes
