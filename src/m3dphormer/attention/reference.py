"""The law: Eq. 1 of the paper, dense, in float64. Every other scheme is tested against it."""

from __future__ import annotations

import torch
from torch import Tensor

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.scores import Scores
from m3dphormer.masks import Mask


def reference(scores: Scores, v: Tensor, mask: Mask, dropout: Dropout | None) -> Tensor:
    """softmax(scores where the mask is 1, else -inf) v; a row without keys gives 0.

    Args:
        v: [T, H, d_h].

    Returns:
        [T, H, d_h] in the type of ``v``.
    """
    seen = mask.to_dense().to(v.device)
    empty = ~seen.any(dim=1, keepdim=True)
    logits = scores.double().dense()  # [H, T, T]
    weights = logits.masked_fill(~(seen | empty), -torch.inf).softmax(dim=-1)
    weights = weights.masked_fill(~seen, 0.0)
    if dropout is not None:
        ids = torch.arange(len(v), device=v.device)
        weights = weights * dropout.scale(ids[:, None], ids[None, :], scores.heads).movedim(2, 0)
    return torch.einsum("hqk,khd->qhd", weights, v.double()).to(v.dtype)
