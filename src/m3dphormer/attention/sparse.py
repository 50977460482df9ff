"""The paper's Algorithm 2: gather the non-zero pairs, score, normalise, scatter.

With the scale and the row maximum that the printed algorithm forgets. ``sparse`` takes all T rows
at once; ``dual`` uses the same code for the regions that are empty enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.scores import Scores
from m3dphormer.masks import Mask


@dataclass(frozen=True)
class PairList:
    """The pairs of some query rows, in row order.

    Args:
        indptr: [rows + 1] where the pairs of each row begin.
        rows: [m] number of the row among those rows.
        queries: [m] its number among all T.
        keys: [m] the key's number among all T.
    """

    indptr: Tensor
    rows: Tensor
    queries: Tensor
    keys: Tensor


def sparse(scores: Scores, v: Tensor, mask: Mask, dropout: Dropout | None) -> Tensor:
    """Attention over the mask's pairs, [T, H, d_h]; holds several [m, H, d_h] tensors."""
    csr = mask.to_csr(v.device)
    return attend_pairs(scores, v, PairList(csr.indptr, csr.rows, csr.rows, csr.indices), dropout)


def attend_pairs(scores: Scores, v: Tensor, pairs: PairList, dropout: Dropout | None) -> Tensor:
    """Attention of some rows over the listed pairs, [rows, H, d_h]."""
    count = len(pairs.indptr) - 1
    logits = scores.at(pairs.queries, pairs.keys)  # [m, H]
    top = torch.segment_reduce(logits.detach(), "max", offsets=pairs.indptr, axis=0)
    weights = (logits - top.index_select(0, pairs.rows)).exp()
    total = v.new_zeros(count, scores.heads).index_add(0, pairs.rows, weights)
    weights = weights / total.index_select(0, pairs.rows)
    if dropout is not None:
        weights = weights * dropout.scale(pairs.queries, pairs.keys, scores.heads).to(v.dtype)
    messages = weights.unsqueeze(-1) * v.index_select(0, pairs.keys)  # [m, H, d_h]
    return v.new_zeros(count, *v.shape[1:]).index_add(0, pairs.rows, messages)
