"""Masked attention by the full score matrix (the paper's Algorithm 1), for a set of rows.

``dense`` takes all T rows at once, O(2 H T^2) memory; ``dual`` uses the same code for the regions
that are full enough.
"""

from __future__ import annotations

import torch
from torch import Tensor

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.scores import ALL, Rows, Scores
from m3dphormer.masks import Mask


def dense(scores: Scores, v: Tensor, mask: Mask, dropout: Dropout | None) -> Tensor:
    """Attention over the mask through [H, T, T] scores and weights, [T, H, d_h]."""
    if "dense" not in mask.memo:
        mask.memo["dense"] = mask.to_dense()
    return attend_rows(scores, v, mask.memo["dense"].to(v.device), dropout)


def attend_rows(
    scores: Scores,
    v: Tensor,
    seen: Tensor | None,
    dropout: Dropout | None,
    queries: Rows = ALL,
    keys: Rows = ALL,
) -> Tensor:
    """Attention of some rows over some keys, [queries, H, d_h].

    Args:
        seen: [queries, keys] who may look at whom; None: everyone at everyone.
        queries, keys: Which of the T rows.
    """
    logits = scores.dense(queries, keys)  # [H, queries, keys]
    if seen is None:
        weights = logits.softmax(dim=-1)
    else:
        weights = logits.masked_fill(~seen, -torch.inf).softmax(dim=-1)
        empty = ~seen.any(dim=1)
        if bool(empty.any()):
            weights = weights.masked_fill(empty[:, None], 0.0)  # where the softmax gave NaN
    if dropout is not None:
        ids = torch.arange(len(v), device=v.device)
        kept = dropout.scale(ids[queries][:, None], ids[keys][None, :], scores.heads)
        weights = weights * kept.to(v.dtype).movedim(2, 0)
    return torch.bmm(weights, v[keys].transpose(0, 1)).transpose(0, 1)
