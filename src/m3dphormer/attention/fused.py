"""Our scheme: one pass over each row's keys for all heads, no [m, H, d_h] tensor ever.

On the CPU in float32 and float64 the kernels of ``csrc/``, and without a list of all pairs where
everyone sees the same keys (``complete.py``, ``slabs.py``). Elsewhere, and where the kernels could
not be built, torch code in bounded memory (``chunked.py``). The numbers are the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from m3dphormer.attention import native
from m3dphormer.attention import ops as ops  # registers the operators
from m3dphormer.attention.chunked import chunked
from m3dphormer.attention.complete import complete, complete_of, serves
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.order import index_of
from m3dphormer.attention.scores import AdditiveScores, DotScores, Scores
from m3dphormer.attention.slabs import LISTED, in_slabs
from m3dphormer.masks import Mask


def fused(scores: Scores, v: Tensor, mask: Mask, dropout: Dropout | None) -> Tensor:
    """Attention over the mask's pairs, [T, H, d_h]; holds nothing of the size of the mask."""
    assert isinstance(scores, DotScores | AdditiveScores)
    pair = (scores.q, scores.k) if isinstance(scores, DotScores) else (scores.a, scores.b)
    known = v.dtype in (torch.float32, torch.float64) and v.device.type == "cpu"
    if known and isinstance(scores, DotScores) and serves(scores, v, mask, dropout):
        return complete(scores, v, mask)
    if not known or not native.ready():
        return chunked(scores, v, mask, dropout)
    drop = (dropout.p, dropout.seed, dropout.call) if dropout is not None else (0.0, 0, 0)
    operator, rest = "dot", [*drop]
    if isinstance(scores, AdditiveScores):
        operator, rest = "additive", [*drop, scores.slope]
    block = complete_of(mask)
    if block is not None and mask.nnz > LISTED:
        return in_slabs(operator, *pair, v, block, *rest)
    out: Tensor
    out, _ = getattr(torch.ops.m3dphormer, operator)(*pair, v, *index_of(mask), *rest)
    return out
