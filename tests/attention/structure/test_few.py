"""Attention to a few common keys is softmax, dropout and a sum."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from m3dphormer.attention import native
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure.few import attend_few

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")
FIRST = 1000  # row of the first key


def plain(scores: Tensor, v: Tensor, dropout: Dropout | None) -> Tensor:
    weights = scores.softmax(dim=2)
    rows, heads, keys = scores.shape
    if dropout is not None:
        query, key = torch.arange(rows)[:, None], FIRST + torch.arange(keys)[None, :]
        kept = dropout.scale(query, key, heads=heads).transpose(1, 2)
        weights = weights * kept.to(scores.dtype)
    return torch.einsum("nhc,che->nhe", weights, v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize(
    ("rows", "heads", "keys", "width"),
    [(1, 1, 1, 1), (3, 3, 2, 5), (17, 2, 3, 32), (300, 4, 7, 16), (1030, 1, 40, 24)],
)
def test_few_keys_equal_the_plain_form(
    rows: int, heads: int, keys: int, width: int, p: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    scores = torch.randn(rows, heads, keys, dtype=dtype, requires_grad=True)
    v = torch.randn(keys, heads, width, dtype=dtype, requires_grad=True)
    dropout = Dropout(p, 5, 2) if p else None
    ours, law = attend_few(scores, v, FIRST, dropout), plain(scores, v, dropout)
    within = (
        {"rtol": 1e-9, "atol": 1e-10} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    )
    torch.testing.assert_close(ours, law, **within)
    weight = torch.randn_like(law)
    for one, other in zip(
        torch.autograd.grad((ours * weight).sum(), [scores, v]),
        torch.autograd.grad((law * weight).sum(), [scores, v]),
        strict=True,
    ):
        torch.testing.assert_close(one, other, **within)


def test_the_number_of_threads_changes_no_bit() -> None:
    torch.manual_seed(0)
    scores = torch.randn(1030, 2, 5, requires_grad=True)
    v = torch.randn(5, 2, 16, requires_grad=True)
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        out = attend_few(scores, v, FIRST, Dropout(0.3, 1, 2))
        found.append([out, *torch.autograd.grad(out.square().sum(), [scores, v])])
    torch.set_num_threads(before)
    assert all(
        torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)
    )
