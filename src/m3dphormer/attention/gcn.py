"""GCN-style weights: no scores, D^-1/2 M D^-1/2 of a mask M with the degrees D.

It is attention with fixed scores -log(d_w) / 2, whose softmax divides by S_u = sum of d_w^-1/2,
times S_u / sqrt(d_u). So every scheme serves, and dropout acts on the weights as everywhere.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from m3dphormer.attention.attend import attend_additive
from m3dphormer.attention.scores import AdditiveScores
from m3dphormer.masks import Mask


def attend_gcn(v: Tensor, mask: Mask, **options: Any) -> Tensor:
    """Sum of v_w / sqrt(d_u d_w) over the keys w of each row u, [T, H, d_h].

    d_u is how many keys u has and d_w how many see w, the same in a symmetric mask.

    Args:
        v: [T, H, d_h].
        options: ``scheme``, ``dropout``, ``seed`` and ``call`` of :func:`attend`.
    """
    fixed = gcn_scores(mask, v)
    out = attend_additive(fixed.a, fixed.b, v, mask, slope=fixed.slope, **options)
    return out * _degrees(mask)[1].to(v)[:, None, None]


def gcn_scores(mask: Mask, v: Tensor) -> AdditiveScores:
    """The fixed scores for the heads of ``v``; their softmax is each key's share of its row."""
    b = _degrees(mask)[0].to(v)[:, None].expand(-1, v.shape[1]).contiguous()
    return AdditiveScores(torch.zeros_like(b), b, slope=1.0)


def _degrees(mask: Mask) -> tuple[Tensor, Tensor]:
    """-log(d_w) / 2 of each key, and S_u / sqrt(d_u) of each row, both [T] in float64."""
    if "gcn" not in mask.memo:
        csr, total = mask.to_csr(), mask.layout.total
        keys = csr.indptr.diff().clamp(min=1).double()
        seen = torch.bincount(csr.indices, minlength=total).clamp(min=1).double()
        sums = seen.new_zeros(total).index_add(0, csr.rows, seen.rsqrt()[csr.indices])
        mask.memo["gcn"] = -seen.log() / 2, sums * keys.rsqrt()
    found: tuple[Tensor, Tensor] = mask.memo["gcn"]
    return found
