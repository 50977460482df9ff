"""What an expert is made of, and the form in which it is computed: what it reads, then attends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor, nn

from m3dphormer.attention.attend import attend, attend_additive
from m3dphormer.attention.dropout import Dropout, keywords
from m3dphormer.attention.gcn import attend_gcn
from m3dphormer.attention.structure.maps import Map
from m3dphormer.attention.structure.mix import Blend
from m3dphormer.attention.structure.read import Pool
from m3dphormer.masks import Layout, Mask
from m3dphormer.masks.layout import ROLES


@dataclass(frozen=True)
class DotWeights:
    """Scaled dot-product attention: q, k, v = W h + b."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    heads: int


@dataclass(frozen=True)
class AdditiveWeights:
    """GAT-style attention: s = W h + b, scores LeakyReLU(score_query . s_u + score_key . s_w)."""

    score: nn.Linear
    score_query: Tensor  # [H, d_h]
    score_key: Tensor
    value: nn.Linear
    heads: int


@dataclass(frozen=True)
class GCNWeights:
    """GCN-style: no scores, v = W h + b."""

    value: nn.Linear
    heads: int


Weights = DotWeights | AdditiveWeights | GCNWeights
Answers = list[tuple[int, Tensor | Blend]]  # runs of rows: the first row's number, [n, d]


@dataclass(frozen=True)
class Form:
    """One expert on one state.

    Args:
        reads: Linear maps of the state that it needs.
        pools: Attentions over whole rows of the state that it needs.
        finish: From what these gave, in their order, to the expert's answers.
    """

    reads: list[Map]
    pools: list[Pool]
    finish: Callable[[list[Tensor]], Answers]


def narrowed(mask: Mask) -> Mask:
    """The mask without the roles at the end that it does not touch."""
    if "narrowed" not in mask.memo:
        used = {role for region in mask.regions for role in (region.queries, region.keys)}
        last = max((ROLES.index(role) for role in used), default=0)
        sizes = {role: mask.layout.size(role) for role in ROLES[: last + 1]}
        mask.memo["narrowed"] = replace(mask, layout=Layout(**sizes))
    found: Mask = mask.memo["narrowed"]
    return found


def plain_dot(weights: DotWeights, mask: Mask, few: Tensor, dropout: Dropout | None) -> Form:
    """Any mask: q, k and v of the rows that it touches."""
    mask = narrowed(mask)
    rows = mask.layout.total

    def finish(read: list[Tensor]) -> Answers:
        q, k, v = (by_head(tensor, weights.heads) for tensor in read)
        return [(0, attend(q, k, v, mask, **keywords(dropout)).flatten(1))]

    maps = (weights.query, weights.key, weights.value)
    return Form([Map.of(linear, rows) for linear in maps], [], finish)


def short_scores(
    weights: AdditiveWeights, mask: Mask, few: Tensor, dropout: Dropout | None
) -> Form:
    """Rewrite 4: a . (W h + b) is h . (W^T a) + a . b, H outputs instead of a projection."""
    mask = narrowed(mask)
    rows, heads = mask.layout.total, weights.heads
    by_score = weights.score.weight.view(heads, -1, weights.score.in_features)  # [H, d_h, d]
    bias = None if weights.score.bias is None else weights.score.bias.view(heads, -1)

    def short(vector: Tensor) -> Map:
        constant = None if bias is None else (bias * vector).sum(1)
        return Map((vector.unsqueeze(1) @ by_score).squeeze(1), constant, rows)  # [H, d]

    def finish(read: list[Tensor]) -> Answers:
        a, b, v = read
        out = attend_additive(a, b, by_head(v, heads), mask, **keywords(dropout))
        return [(0, out.flatten(1))]

    reads = [short(weights.score_query), short(weights.score_key), Map.of(weights.value, rows)]
    return Form(reads, [], finish)


def by_degrees(weights: GCNWeights, mask: Mask, few: Tensor, dropout: Dropout | None) -> Form:
    """Values alone: the mask's degrees are the weights."""
    mask = narrowed(mask)

    def finish(read: list[Tensor]) -> Answers:
        v = by_head(read[0], weights.heads)
        return [(0, attend_gcn(v, mask, **keywords(dropout)).flatten(1))]

    return Form([Map.of(weights.value, mask.layout.total)], [], finish)


def by_head(tensor: Tensor, heads: int) -> Tensor:
    """[n, d] as [n, H, d_h]."""
    return tensor.view(len(tensor), heads, -1)
