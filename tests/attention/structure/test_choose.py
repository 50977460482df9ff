"""Which form computes which expert."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.attention.structure.choose import RULES, choose
from m3dphormer.attention.structure.forms import (
    AdditiveWeights,
    DotWeights,
    GCNWeights,
    Weights,
    narrowed,
)


def dot(width: int, heads: int) -> DotWeights:
    query, key, value = (nn.Linear(width, width) for _ in range(3))
    return DotWeights(query, key, value, heads)


def additive(width: int, heads: int) -> AdditiveWeights:
    vectors = torch.randn(2, heads, width // heads)
    return AdditiveWeights(nn.Linear(width, width), *vectors, nn.Linear(width, width), heads)


@pytest.mark.parametrize(
    ("mask", "weights", "name"),
    [
        ("l2", additive(8, 2), "short scores"),
        ("c4", dot(8, 2), "star"),
        ("g3", dot(8, 2), "class scores"),  # 2 heads x 3 classes < 8
        ("g3", dot(8, 4), "class queries"),
        ("c4", additive(8, 2), "short scores"),
        ("g3", additive(8, 2), "short scores"),
        ("l2", dot(8, 2), "plain"),
        ("l2", GCNWeights(nn.Linear(8, 8), 2), "degrees"),
        ("c3", dot(8, 2), "plain"),
        ("g2", dot(8, 2), "plain"),
        ("g1", dot(8, 2), "complete"),
        ("c2", dot(8, 2), "complete"),
    ],
)
def test_masks_of_the_paper_have_forms_of_their_own(mask: str, weights: Weights, name: str) -> None:
    built = masks.build_from(mask, random_graph(60, 3), {"clusters": 6})
    assert choose(weights, built).name == name


def test_every_rule_says_why() -> None:
    assert all(rule.why and rule.name for rule in RULES)


def test_a_mask_is_narrowed_to_the_roles_it_touches() -> None:
    data = random_graph(60, 3)
    layout = masks.c4(data, 6).layout | masks.g3(data).layout
    assert narrowed(masks.l2(data).widen(layout)).layout.total == 60
    assert narrowed(masks.c4(data, 6).widen(layout)).layout.total == 66
    assert narrowed(masks.g3(data).widen(layout)).layout.total == 69
    mask = masks.l2(data).widen(layout)
    assert torch.equal(narrowed(mask).to_dense(), mask.to_dense()[:60, :60])
