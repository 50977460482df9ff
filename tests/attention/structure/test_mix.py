"""The end of a layer in one pass is the plain form, and both drop the same entries."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from m3dphormer.attention import native
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import passes
from m3dphormer.attention.structure.mix import Blend, Piece, drop_features, gather, mix

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")
ROWS = 150


def leaves(width: int) -> tuple[list[Tensor], list[tuple[int, int]]]:
    """Gates, residual and the answers of three experts, the last in two runs of rows."""
    generator = torch.Generator().manual_seed(0)
    places = [(0, 0), (1, 0), (2, 0), (2, 147)]
    shapes = [(ROWS, 3), (ROWS, width), (140, width), (147, width), (140, width), (3, width)]
    made = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    return [tensor.requires_grad_() for tensor in made], places


@pytest.mark.parametrize("width", [1, 8, 128, 300])
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_one_pass_equals_the_plain_form(width: int, p: float) -> None:
    (gates, residual, *rows), places = leaves(width)
    pieces = [Piece(*place, tensor) for place, tensor in zip(places, rows, strict=True)]
    drop = Dropout(p, 2**40 + 3, 7) if p else None
    one, other = (mix(pieces, gates, residual, drop, fused=fused) for fused in (True, False))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    given, weight = [gates, residual, *rows], torch.randn_like(one)
    for left, right in zip(
        torch.autograd.grad((one * weight).sum(), given),
        torch.autograd.grad((other * weight).sum(), given),
        strict=True,
    ):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize(
    ("heads", "head_width", "keys"), [(1, 1, 1), (4, 32, 3), (3, 50, 4), (2, 8, 11), (5, 60, 2)]
)
def test_a_blend_equals_its_rows(heads: int, head_width: int, keys: int, bare: bool) -> None:
    (gates, residual, rows, *_), _ = leaves(heads * head_width)
    weights = torch.rand(140, heads, keys, dtype=torch.float64, requires_grad=True)
    values = torch.randn(keys, heads, head_width, dtype=torch.float64, requires_grad=True)
    pieces = [Piece(0, 2, rows), Piece(2, 5, Blend(weights, values))]
    drop, found, given = Dropout(0.4, 9, 1), [], [gates, residual, rows, weights, values]
    for fused in (True, False):
        if bare:
            out = gather(pieces, gates, residual, fused=fused)
        else:
            out = mix(pieces, gates, residual, drop, fused=fused)
        outside = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
        found.append([out, *torch.autograd.grad((out * outside).sum(), given)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_the_number_of_threads_changes_no_bit() -> None:
    torch.manual_seed(0)
    gates, residual = torch.rand(1030, 1), torch.randn(1030, 32)
    weights = torch.rand(1030, 2, 5, requires_grad=True)
    values = torch.randn(5, 2, 16, requires_grad=True)
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        out = mix([Piece(0, 0, Blend(weights, values))], gates, residual, None, fused=True)
        found.append([out, *torch.autograd.grad(out.square().sum(), [weights, values])])
    torch.set_num_threads(before)
    assert all(
        torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_alone_drops_the_same_features(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    h, drop = torch.ones(ROWS, 33, dtype=dtype), Dropout(0.3, 11, 5)
    native_way = drop_features(h, drop)
    monkeypatch.setattr(passes, "serve", lambda tensor: False)
    assert torch.equal(native_way, drop_features(h, drop))
    assert 0.2 < float((native_way == 0).double().mean()) < 0.4


def test_another_call_drops_other_features() -> None:
    h = torch.ones(ROWS, 33)
    assert not torch.equal(*(drop_features(h, Dropout(0.3, 11, call)) for call in (1, 2)))


def test_half_precision_goes_the_plain_way() -> None:
    assert not passes.serve(torch.ones(2, 2, dtype=torch.bfloat16))
