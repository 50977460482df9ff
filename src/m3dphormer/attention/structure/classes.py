"""Rewrites 1 and 2, the mask g3: real nodes see the class nodes, these see their training nodes.

A class node is one query a class: its scores are h_t . (W_K^T q), the key's bias cancels, and its
answer is (sum a_t h_t) W_V + (sum a_t) b_V. A real node's scores are h . (W_Q^T k_c) + b_Q . k_c.
So no projection of all nodes is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure.few import few_weights
from m3dphormer.attention.structure.forms import Answers, DotWeights, Form, by_head
from m3dphormer.attention.structure.maps import Map
from m3dphormer.attention.structure.members import Members
from m3dphormer.attention.structure.mix import Blend
from m3dphormer.attention.structure.read import Pool
from m3dphormer.masks import Mask
from m3dphormer.masks.regions import Block, Groups


@dataclass(frozen=True)
class Classes:
    """Class nodes, their members, and where they stand."""

    members: Members
    nodes: int
    first: int  # row of the first class node


def classes_of(mask: Mask) -> Classes | None:
    """The mask as class nodes and their members; None where it is not that."""
    if "classes" not in mask.memo:
        mask.memo["classes"] = _classes_of(mask)
    found: Classes | None = mask.memo["classes"]
    return found


def _classes_of(mask: Mask) -> Classes | None:
    if len(mask.regions) != 2 or not mask.layout.classes:
        return None
    out, back = sorted(mask.regions, key=lambda region: region.queries == "classes")
    if not isinstance(out, Block) or not isinstance(back, Groups) or not back.gather:
        return None
    roles = (out.queries, out.keys, back.queries, back.keys)
    if roles != ("nodes", "classes", "classes", "nodes") or not out.whole:
        return None
    members = Members.of(back.group, mask.layout.classes)
    return Classes(members, mask.layout.nodes, mask.layout.start("classes"))


def by_scores(weights: DotWeights, mask: Mask, few: Tensor, dropout: Dropout | None) -> Form:
    """Rewrites 1 and 2: the scores of real nodes are H * C outputs of the state."""
    q, k, v = _own(weights, few)  # [C, H, d_h]
    scale = 1 / math.sqrt(k.shape[2])
    keys = k.transpose(0, 1) * scale  # [H, C, d_h]
    maps = keys @ _matrix(weights.query.weight, weights.heads)  # [H, C, d]
    bias = None
    if weights.query.bias is not None:
        bias = keys @ weights.query.bias.view(weights.heads, -1, 1)  # [H, C, 1]
    classes = classes_of(mask)
    assert classes is not None
    scores = Map(maps.flatten(0, 1), None if bias is None else bias.flatten(), classes.nodes)

    def finish(read: list[Tensor]) -> Answers:
        given, *pooled = read
        scored = given.view(len(given), weights.heads, -1)
        real = Blend(few_weights(scored, classes.first, dropout), v)
        return [(0, real), (classes.first, _answer(weights, *pooled))]

    return Form([scores], [_pool(weights, q, classes, dropout)], finish)


def by_queries(weights: DotWeights, mask: Mask, few: Tensor, dropout: Dropout | None) -> Form:
    """Rewrite 1 alone, where the classes are so many that queries are cheaper than scores."""
    q, k, v = _own(weights, few)
    classes = classes_of(mask)
    assert classes is not None

    def finish(read: list[Tensor]) -> Answers:
        queries, *pooled = read
        scale = 1 / math.sqrt(k.shape[2])
        scores = torch.einsum("nhe,che->nhc", by_head(queries, weights.heads), k * scale)
        real = Blend(few_weights(scores, classes.first, dropout), v)
        return [(0, real), (classes.first, _answer(weights, *pooled))]

    return Form(
        [Map.of(weights.query, classes.nodes)], [_pool(weights, q, classes, dropout)], finish
    )


def _own(weights: DotWeights, few: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of the class nodes themselves."""
    q, k, v = (layer(few) for layer in (weights.query, weights.key, weights.value))
    return by_head(q, weights.heads), by_head(k, weights.heads), by_head(v, weights.heads)


def _pool(weights: DotWeights, q: Tensor, classes: Classes, dropout: Dropout | None) -> Pool:
    scaled = q.transpose(0, 1) / math.sqrt(q.shape[2])  # [H, C, d_h]
    queries = scaled @ _matrix(weights.key.weight, weights.heads)  # [H, C, d]
    return Pool(queries.transpose(0, 1), classes.members, classes.first, dropout)


def _answer(weights: DotWeights, pooled: Tensor, kept: Tensor) -> Tensor:
    """(sum a_t h_t) W_V + (sum a_t) b_V, [C, d]."""
    by_value = _matrix(weights.value.weight, weights.heads).transpose(1, 2)  # [H, d, d_h]
    out = (pooled.transpose(0, 1) @ by_value).transpose(0, 1)  # [C, H, d_h]
    if weights.value.bias is not None:
        out = out + kept.unsqueeze(2) * weights.value.bias.view(weights.heads, -1)
    return out.flatten(1)


def _matrix(weight: Tensor, heads: int) -> Tensor:
    """[d, d] as [H, d_h, d]."""
    return weight.view(heads, -1, weight.shape[1])
