"""The paper's Algorithm 2: gather the non-zero pairs, score, normalise, scatter.

With the scale and the row maximum that the printed algorithm forgets.
"""

from __future__ import annotations

import torch
from torch import Tensor

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.scores import Scores
from m3dphormer.masks import Mask


def sparse(scores: Scores, v: Tensor, mask: Mask, dropout: Dropout | None) -> Tensor:
    """Attention over the mask's pairs, [T, H, d_h]; holds several [m, H, d_h] tensors."""
    csr = mask.to_csr(v.device)
    rows, keys = csr.rows, csr.indices
    logits = scores.at(rows, keys)  # [m, H]
    top = torch.segment_reduce(logits.detach(), "max", offsets=csr.indptr, axis=0)
    weights = (logits - top.index_select(0, rows)).exp()
    total = v.new_zeros(len(v), scores.heads).index_add(0, rows, weights)
    weights = weights / total.index_select(0, rows)
    if dropout is not None:
        weights = weights * dropout.scale(rows, keys, scores.heads).to(v.dtype)
    messages = weights.unsqueeze(-1) * v.index_select(0, keys)  # [m, H, d_h]
    return torch.zeros_like(v).index_add(0, rows, messages)
