"""The kernels as torch operators: opcheck, gradcheck, compile and export."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphs import random_graph
from m3dphormer import attend, attend_additive
from m3dphormer.attention import native
from m3dphormer.masks import l2
from rows import power_law

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")
MASK = power_law(30)


def arguments(kind: str, dtype: torch.dtype = torch.float64) -> tuple[object, ...]:
    csr = MASK.to_csr()
    index = (csr.indptr, csr.indices, csr.transpose.indptr, csr.transpose.indices, None)
    scores = (30, 2, 3) if kind == "dot" else (30, 2)
    tensors = [
        torch.randn(s, dtype=dtype, requires_grad=True) for s in (scores, scores, (30, 2, 3))
    ]
    return (*tensors, *index, 0.3, 2**40 + 1, 2, *((0.2,) if kind == "additive" else ()))


@pytest.mark.parametrize("kind", ["dot", "additive"])
def test_opcheck(kind: str) -> None:
    operator = getattr(torch.ops.m3dphormer, kind).default
    given = arguments(kind)
    torch.library.opcheck(operator, given)
    with torch.no_grad():
        out, lse = operator(*given)
        backward = getattr(torch.ops.m3dphormer, kind + "_backward").default
        plain = tuple(t.detach() if isinstance(t, Tensor) else t for t in given)
        torch.library.opcheck(backward, (torch.randn_like(out), out, lse, *plain))


def test_gradcheck_of_additive_attention() -> None:
    a, b, v, *_ = arguments("additive")
    assert torch.autograd.gradcheck(
        lambda a, b, v: attend_additive(a, b, v, MASK, dropout=0.3, seed=1), (a, b, v)
    )


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mask = l2(random_graph(40))
        self.mask.to_csr().transpose  # noqa: B018

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.relu(attend(q * 2, k, v, self.mask, dropout=0.3, seed=3)) + 1


def test_torch_compile_gives_the_same_values_and_gradients() -> None:
    layer = Layer()
    tensors = [torch.randn(40, 2, 8, requires_grad=True) for _ in range(3)]
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    ours, plain = compiled(*tensors), layer(*tensors)
    torch.testing.assert_close(ours, plain)
    for x, y in zip(
        torch.autograd.grad(ours.square().sum(), tensors),
        torch.autograd.grad(plain.square().sum(), tensors),
        strict=True,
    ):
        torch.testing.assert_close(x, y)


def test_torch_export_gives_the_same_values() -> None:
    layer = Layer()
    tensors = tuple(torch.randn(40, 2, 8) for _ in range(3))
    exported = torch.export.export(layer, tensors)
    assert "m3dphormer.dot" in str(exported.graph)
    torch.testing.assert_close(exported.module()(*tensors), layer(*tensors))
