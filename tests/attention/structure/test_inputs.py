"""The input layer in every form is X W + b with the virtual rows built."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from m3dphormer.attention import native
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import inputs

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("density", [0.01, 0.1, 0.35, 1.0])
@pytest.mark.parametrize("means_from", [0, 1000])
def test_every_form_equals_the_built_rows(
    bias: bool, density: float, means_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MEANS_FROM", means_from)
    torch.manual_seed(0)
    x = torch.randn(80, 30).double() * (torch.rand(80, 30) < density)
    groups = [(torch.arange(80) % 7, 7), (torch.where(torch.arange(80) < 40, 1, -1), 3)]
    layer = nn.Linear(30, 8, bias=bias).double()
    chosen, plain = inputs.features(x, groups), inputs.plain_features(x, groups)
    assert (chosen.means is None) == (means_from > 0)
    assert (chosen.sparse is None) == (density == 1.0)
    assert chosen.sparse is None or chosen.sparse.packed == (density < 0.2)
    one, other = chosen.project(layer), plain.project(layer)
    assert one.shape == (90, 8)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    weight, parameters = torch.randn_like(one), list(layer.parameters())
    for left, right in zip(
        torch.autograd.grad((one * weight).sum(), parameters),
        torch.autograd.grad((other * weight).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


def test_a_graph_without_virtual_nodes_has_its_own_rows_alone() -> None:
    x = torch.randn(20, 5)
    layer = nn.Linear(5, 4)
    torch.testing.assert_close(inputs.features(x, []).project(layer), layer(x))


@pytest.mark.parametrize("density", [0.01, 0.1, 0.35, 1.0])
def test_dropped_features_are_features_with_some_numbers_dropped(density: float) -> None:
    torch.manual_seed(0)
    x = (1 + torch.rand(80, 30).double()) * (torch.rand(80, 30) < density)
    whole = inputs.features(x, [])
    assert (whole.sparse is None) == (density == 1.0)
    given = whole.dropped(0.4)
    weight = torch.eye(30).double().requires_grad_()
    out = given.times(weight)  # X itself
    kept = out.detach() != 0
    torch.testing.assert_close(out.detach(), torch.where(kept, x / 0.6, 0.0))
    assert 0.4 < float(kept.sum() / (x != 0).sum()) < 0.8
    (grad,) = torch.autograd.grad(out.sum(), weight)  # the same numbers are dropped on the way back
    torch.testing.assert_close(grad, out.detach().sum(0).expand(30, 30))
    assert not torch.equal(whole.dropped(0.4).times(weight), out)
    assert torch.equal(whole.times(weight), x)


@pytest.mark.parametrize("p", [0.0, 0.4])
def test_the_activation_in_one_pass_is_the_plain_one(p: float) -> None:
    z = torch.randn(70, 33, dtype=torch.float64)
    z[3] = 0
    z.requires_grad_()
    drop = Dropout(p, 9, 1) if p else None
    one, other = (inputs.skip(z, drop, fused=fused) for fused in (True, False))
    assert torch.equal(one, other)
    weight = torch.randn_like(one)
    (left,), (right,) = (torch.autograd.grad((out * weight).sum(), z) for out in (one, other))
    torch.testing.assert_close(left, right, rtol=1e-12, atol=0)
