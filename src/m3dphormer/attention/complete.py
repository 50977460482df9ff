"""Attention where every query of a set sees every key of another: no list of the pairs.

A mask that is one ``Block`` (g1, c1, c2) has queries x keys pairs and nothing to store of them. Dot
products without dropout over it are torch's own attention between two sets of rows, which goes
through blocks of scores and holds nothing of the size of the mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.scores import DotScores, Rows
from m3dphormer.masks import Mask
from m3dphormer.masks.regions import Block

TASKS = 8


@dataclass(frozen=True)
class Complete:
    """Which of the T rows look, and at which; all of these at all of those."""

    queries: Rows
    keys: Rows


def complete_of(mask: Mask) -> Complete | None:
    """The two sets of a mask that is one block; None for any other mask."""
    if "complete" not in mask.memo:
        mask.memo["complete"] = _complete_of(mask)
    found: Complete | None = mask.memo["complete"]
    return found


def _complete_of(mask: Mask) -> Complete | None:
    if len(mask.regions) != 1 or not mask.nnz:
        return None
    (block,) = mask.regions
    if not isinstance(block, Block):
        return None
    queries, keys = mask.layout.rows(block.queries), mask.layout.rows(block.keys)
    return Complete(
        queries if block.query_ids is None else block.query_ids + queries.start,
        keys if block.key_ids is None else block.key_ids + keys.start,
    )


def serves(scores: DotScores, v: Tensor, mask: Mask, dropout: Dropout | None) -> bool:
    """Whether :func:`complete` can take it; torch does not know our dropout."""
    if dropout is not None or complete_of(mask) is None:
        return False
    return v.shape[2] == scores.q.shape[2]  # else torch builds the whole score matrix


def complete(scores: DotScores, v: Tensor, mask: Mask) -> Tensor:
    """Attention over a mask that is one block, [T, H, d_h]."""
    block = complete_of(mask)
    assert block is not None
    found = _attend(scores.q[block.queries], scores.k[block.keys], v[block.keys])
    rows = torch.arange(len(v))[block.queries]
    return torch.zeros_like(v).index_put((rows,), found)  # unlike index_copy it keeps no answer


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """All queries [n, H, d_h] at all keys [m, H, d_h]; the queries are cut into equal parts."""
    parts = parts_of(q.shape[1])
    whole = pad(q, (0, 0, 0, 0, 0, -len(q) % parts))
    queries = whole.reshape(parts, -1, *q.shape[1:]).transpose(1, 2).contiguous()
    keys, values = (t.transpose(0, 1).contiguous().expand(parts, -1, -1, -1) for t in (k, v))
    found = scaled_dot_product_attention(queries, keys, values)  # [parts, H, n / parts, d_h]
    return found.transpose(1, 2).flatten(0, 1)[: len(q)]


def parts_of(heads: int) -> int:
    """Into how many parts queries are cut: the backward pass has a task for each part and head.

    A single task would spread its products over threads, and its bits would depend on their number.
    """
    return max(1, TASKS // heads)
