"""Rewrite 3, the mask c4: a member has two keys, itself and its centre, so one sigmoid a head.

One pass over the members gives their answers and folds them into their centre's softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import passes
from m3dphormer.attention.structure.forms import Answers, DotWeights, Form, by_head
from m3dphormer.attention.structure.maps import Map
from m3dphormer.attention.structure.members import Members
from m3dphormer.masks import Mask
from m3dphormer.masks.regions import Groups, Region


@dataclass(frozen=True)
class Star:
    """Every real node is a member of one centre; rows are the members, then the centres."""

    members: Members
    nodes: int
    centres: int
    loops: bool  # whether a centre sees itself

    @property
    def rows(self) -> int:
        return self.nodes + self.centres


def star_of(mask: Mask) -> Star | None:
    """The mask as a star; None where it is not one."""
    if "star" not in mask.memo:
        mask.memo["star"] = _star_of(mask)
    found: Star | None = mask.memo["star"]
    return found


def _star_of(mask: Mask) -> Star | None:
    parts = {(r.queries, r.keys): r for r in mask.regions if isinstance(r, Groups)}
    own, out = parts.get(("nodes", "nodes")), parts.get(("nodes", "clusters"))
    back, loops = parts.get(("clusters", "nodes")), parts.get(("clusters", "clusters"))
    if own is None or out is None or back is None or len(parts) != len(mask.regions):
        return None
    n, p = mask.layout.nodes, mask.layout.clusters
    same = torch.equal(out.group, back.group) and not out.gather and back.gather
    whole = _is_own(own, n) and (loops is None or _is_own(loops, p))
    if len(mask.regions) != 3 + (loops is not None) or not same or not whole:
        return None
    if len(out.group) != n or bool((out.group < 0).any()):
        return None
    return Star(Members.of(out.group, p), n, p, loops is not None)


def _is_own(region: Region, size: int) -> bool:
    """Whether each node of the role sees itself."""
    return isinstance(region, Groups) and torch.equal(region.group, torch.arange(size))


def attend_star(q: Tensor, k: Tensor, v: Tensor, star: Star, dropout: Dropout | None) -> Tensor:
    """Attention over a star; q, k, v and the answer are [members + centres, H, d_h]."""
    out: Tensor = _Attend.apply(q, k, v, star, dropout)  # type: ignore[no-untyped-call]
    return out


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, star: Star, dropout: Dropout | None
    ) -> Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        _, heads, width = q.shape
        out, lse = torch.empty_like(v), v.new_empty(star.centres, heads)
        states = v.new_empty(star.members.pieces, heads, width + 2)
        rest = _arguments(star, heads, width, dropout)
        passes.run("star_forward", v.dtype, out, lse, states, q, k, v, *rest)
        ctx.save_for_backward(out, lse, q, k, v)
        ctx.star, ctx.dropout = star, dropout
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out, lse, q, k, v = ctx.saved_tensors
        _, heads, width = q.shape
        grads = [torch.empty_like(tensor) for tensor in (q, k, v)]
        partial = v.new_empty(ctx.star.members.pieces, 3, heads * width)
        rest = _arguments(ctx.star, heads, width, ctx.dropout)
        given = (grad.contiguous(), out, lse, q, k, v)
        passes.run("star_backward", v.dtype, *grads, partial, *given, *rest)
        return *grads, None, None


def _arguments(
    star: Star, heads: int, width: int, dropout: Dropout | None
) -> tuple[passes.Argument, ...]:
    numbers = (star.nodes, int(star.loops), heads, width, 1 / math.sqrt(width))
    return *star.members.arguments, *numbers, *passes.dropped(dropout)


def star_form(weights: DotWeights, mask: Mask, few: Tensor, dropout: Dropout | None) -> Form:
    """q, k and v of members and centres."""
    star = star_of(mask)
    assert star is not None

    def finish(read: list[Tensor]) -> Answers:
        q, k, v = (by_head(tensor, weights.heads) for tensor in read)
        return [(0, attend_star(q, k, v, star, dropout).flatten(1))]

    maps = (weights.query, weights.key, weights.value)
    return Form([Map.of(linear, star.rows) for linear in maps], [], finish)
