"""Weights of a few common keys are softmax and dropout."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from m3dphormer.attention import native
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure.few import few_weights

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")
FIRST = 1000  # row of the first key


def plain(scores: Tensor, dropout: Dropout | None) -> Tensor:
    weights = scores.softmax(dim=2)
    rows, heads, keys = scores.shape
    if dropout is None:
        return weights
    query, key = torch.arange(rows)[:, None], FIRST + torch.arange(keys)[None, :]
    kept = dropout.scale(query, key, heads=heads).transpose(1, 2)
    return weights * kept.to(scores.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize(
    ("rows", "heads", "keys"), [(1, 1, 1), (3, 3, 2), (17, 2, 3), (300, 4, 7), (1030, 1, 40)]
)
def test_few_keys_equal_the_plain_form(
    rows: int, heads: int, keys: int, p: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    scores = torch.randn(rows, heads, keys, dtype=dtype, requires_grad=True)
    dropout = Dropout(p, 5, 2) if p else None
    ours, law = few_weights(scores, FIRST, dropout), plain(scores, dropout)
    within = (
        {"rtol": 1e-9, "atol": 1e-10} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    )
    torch.testing.assert_close(ours, law, **within)
    weight = torch.randn_like(law)
    (one,) = torch.autograd.grad((ours * weight).sum(), scores)
    (other,) = torch.autograd.grad((law * weight).sum(), scores)
    torch.testing.assert_close(one, other, **within)


def test_named_rows_drop_what_they_drop_under_their_own_numbers() -> None:
    scores = torch.randn(40, 2, 3)
    rows = torch.cat([torch.arange(0, 40, 2), torch.arange(FIRST, FIRST + 3)])
    whole = few_weights(scores, FIRST, Dropout(0.5, 1, 2))
    part = few_weights(scores[::2], 20, Dropout(0.5, 1, 2, names=rows))
    assert torch.equal(part, whole[::2])
