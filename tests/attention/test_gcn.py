"""GCN-style weights are D^-1/2 M D^-1/2 in every scheme, in value and gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from graphs import random_graph, two_masks
from m3dphormer import masks
from m3dphormer.attention import SCHEMES, attend_gcn
from m3dphormer.attention.dropout import Dropout
from m3dphormer.masks import Mask

pytestmark = pytest.mark.filterwarnings("ignore:g3. class")


def by_hand(v: Tensor, mask: Mask) -> Tensor:
    seen = mask.to_dense().double()
    weights = seen / (seen.sum(1, keepdim=True) * seen.sum(0, keepdim=True)).clamp(min=1).sqrt()
    return torch.einsum("qk,khd->qhd", weights, v)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_l2_is_the_gcn_of_kipf_and_welling(scheme: str) -> None:
    data = random_graph(60, 3)
    v = torch.randn(60, 2, 4, dtype=torch.float64, requires_grad=True)
    adjacency = torch.zeros(60, 60, dtype=torch.float64)
    adjacency[tuple(data.edge_index)] = 1.0
    adjacency.fill_diagonal_(1.0)
    root = adjacency.sum(1).rsqrt()
    law = torch.einsum("qk,khd->qhd", root[:, None] * adjacency * root[None, :], v)
    out = attend_gcn(v, masks.l2(data), scheme=scheme)
    torch.testing.assert_close(out, law)
    weight = torch.randn_like(out)
    torch.testing.assert_close(
        torch.autograd.grad((out * weight).sum(), v), torch.autograd.grad((law * weight).sum(), v)
    )


@settings(max_examples=30, deadline=None)
@given(two_masks())
def test_any_mask_is_scaled_by_both_degrees_and_a_row_without_keys_gives_0(
    two: tuple[Mask, Mask],
) -> None:
    v = torch.randn(two[0].layout.total, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(attend_gcn(v, two[0]), by_hand(v, two[0]))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_dropout_acts_on_the_weights(scheme: str) -> None:
    mask = masks.l2(random_graph(60, 3))
    v = torch.randn(60, 2, 4, dtype=torch.float64)
    ids = torch.arange(60)
    kept = Dropout(0.4, 7, 3).scale(ids[:, None], ids[None, :], 2)  # [q, k, h]
    seen = mask.to_dense().double()
    weights = seen / (seen.sum(1, keepdim=True) * seen.sum(0, keepdim=True)).sqrt()
    law = torch.einsum("qkh,khd->qhd", weights.unsqueeze(2) * kept, v)
    out = attend_gcn(v, mask, scheme=scheme, dropout=0.4, seed=7, call=3)
    torch.testing.assert_close(out, law)
