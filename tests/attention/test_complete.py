"""A mask that is one block: the numbers of the reference, without a list of all its pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from graphs import random_graph
from m3dphormer import attend, attend_additive, masks
from m3dphormer.attention import complete, fused, native, slabs
from m3dphormer.masks import Layout, Mask
from m3dphormer.masks.regions import Block

needs_library = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")
LAYOUT = Layout(nodes=41, clusters=6, classes=2)
SOME = torch.tensor([0, 3, 4, 17, 40])


def block(*sides: object) -> Mask:
    return Mask("block", "global", LAYOUT, (Block(*sides),))  # type: ignore[arg-type]


BLOCKS = {
    "all nodes": block("nodes", "nodes"),
    "clusters at nodes": block("clusters", "nodes"),
    "some at clusters": block("nodes", "clusters", SOME),
    "all at some": block("nodes", "nodes", None, SOME),
    "one at one": block("clusters", "classes", torch.tensor([2]), torch.tensor([1])),
}


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def inputs(mask: Mask, heads: int, width: int, dtype: torch.dtype, kind: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = (mask.layout.total, heads)
    scores = (*rows, width) if kind == "dot" else rows
    shapes = [scores, scores, (*rows, width)]
    return [torch.randn(s, generator=generator, dtype=dtype).requires_grad_() for s in shapes]


def run(kind: str, tensors: list[Tensor], mask: Mask, scheme: str, p: float) -> list[Tensor]:
    """Output and gradients."""
    function = attend if kind == "dot" else attend_additive
    out = function(*tensors, mask, scheme=scheme, dropout=p, seed=7, call=1)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    return [out.detach(), *torch.autograd.grad((out * weight.to(out.dtype)).sum(), tensors)]


def listing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        pytest.fail("the pairs were listed")

    monkeypatch.setattr(Mask, "to_csr", fail)


def small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs, "LISTED", 100)
    monkeypatch.setattr(fused, "LISTED", 0)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("heads", "width"), [(1, 1), (3, 33), (2, 16), (9, 4)])
def test_torch_attention_over_a_block_equals_the_reference(
    name: str, dtype: torch.dtype, heads: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = BLOCKS[name]
    tensors = inputs(mask, heads, width, dtype, "dot")
    exact = [t.detach().double().requires_grad_() for t in tensors]
    law = run("dot", exact, mask, "reference", 0.0)
    listing_fails(monkeypatch)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # no other one would do: no matrix of scores
        ours = run("dot", tensors, mask, "fused", 0.0)
    tight = dtype == torch.float64
    close = {"rtol": 1e-9, "atol": 1e-10} if tight else {"rtol": 1e-4, "atol": 1e-5}
    for one, other in zip(ours, law, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), other, **close)


@needs_library
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(("kind", "p"), [("dot", 0.4), ("additive", 0.0), ("additive", 0.4)])
def test_slabs_of_a_block_equal_the_reference(
    name: str, kind: str, p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = BLOCKS[name]
    tensors = inputs(mask, 2, 5, torch.float64, kind)
    law = run(kind, tensors, mask, "reference", p)
    small_slabs(monkeypatch)
    listing_fails(monkeypatch)
    for one, other in zip(run(kind, tensors, mask, "fused", p), law, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@needs_library
def test_values_may_be_wider_than_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = BLOCKS["all nodes"]
    q, k, _ = inputs(mask, 2, 3, torch.float64, "dot")
    v = inputs(mask, 2, 8, torch.float64, "dot")[2]
    law = run("dot", [q, k, v], mask, "reference", 0.0)
    small_slabs(monkeypatch)
    for one, other in zip(run("dot", [q, k, v], mask, "fused", 0.0), law, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("p", [0.0, pytest.param(0.3, marks=needs_library)])
@pytest.mark.usefixtures("threads")
def test_the_bits_are_the_same_twice_and_where_the_kernels_are_ours_on_any_number_of_threads(
    heads: int, p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_slabs(monkeypatch)
    monkeypatch.setattr(slabs, "LISTED", 30_000)
    mask = masks.g1(random_graph(301))
    tensors = inputs(mask, heads, 33, torch.float32, "dot")
    torch.set_num_threads(1)
    once = run("dot", tensors, mask, "fused", p)
    for number in (2, 3, 5):
        torch.set_num_threads(number)
        again, twice = (run("dot", tensors, mask, "fused", p) for _ in range(2))
        assert all(torch.equal(x, y) for x, y in zip(again, twice, strict=True))
        if p:
            assert all(torch.equal(x, y) for x, y in zip(once, again, strict=True))
        else:  # torch's own attention; the last bits of its products are MKL's to choose
            torch.testing.assert_close(once, again)


def test_views_give_what_their_copies_give() -> None:
    mask = BLOCKS["all nodes"]
    plain = inputs(mask, 2, 8, torch.float32, "dot")
    strange = [
        t.detach().permute(2, 0, 1).contiguous().permute(1, 2, 0).requires_grad_() for t in plain
    ]
    assert not strange[0].is_contiguous()
    for one, other in zip(
        run("dot", strange, mask, "fused", 0.0), run("dot", plain, mask, "fused", 0.0), strict=True
    ):
        assert torch.equal(one, other)


def test_large_scores_are_fine() -> None:
    mask = BLOCKS["all nodes"]
    q, k, v = inputs(mask, 2, 8, torch.float64, "dot")
    tensors = [(100 * q).detach().requires_grad_(), (100 * k).detach().requires_grad_(), v]
    ours, law = (run("dot", tensors, mask, scheme, 0.0) for scheme in ("fused", "reference"))
    for one, other in zip(ours, law, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("p", [0.0, pytest.param(0.3, marks=needs_library)])
def test_gradcheck(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    small_slabs(monkeypatch)
    tensors = inputs(BLOCKS["some at clusters"], 2, 3, torch.float64, "dot")
    assert torch.autograd.gradcheck(
        lambda q, k, v: attend(q, k, v, BLOCKS["some at clusters"], dropout=p, seed=1), tensors
    )


class Layer(torch.nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.relu(attend(q * 2, k, v, BLOCKS["all at some"])) + 1


def _compiled(layer: Layer, tensors: list[Tensor]) -> Callable[..., Tensor]:
    compiled: Callable[..., Tensor] = torch.compile(layer, backend="aot_eager", fullgraph=True)
    return compiled


def _exported(layer: Layer, tensors: list[Tensor]) -> Callable[..., Tensor]:
    return torch.export.export(layer, tuple(t.detach() for t in tensors)).module()


@pytest.mark.parametrize("turn", [_compiled, _exported])
def test_torch_compile_and_export_give_the_same(
    turn: Callable[[Layer, list[Tensor]], Callable[..., Tensor]],
) -> None:
    layer, tensors = Layer(), inputs(BLOCKS["all at some"], 2, 8, torch.float32, "dot")
    ours, plain = turn(layer, tensors)(*tensors), layer(*tensors)
    torch.testing.assert_close(ours, plain)
    for x, y in zip(
        torch.autograd.grad(ours.square().sum(), tensors),
        torch.autograd.grad(plain.square().sum(), tensors),
        strict=True,
    ):
        torch.testing.assert_close(x, y)


def test_only_one_block_with_pairs_is_complete() -> None:
    data = random_graph(30)
    assert complete.complete_of(masks.g1(data)) is not None
    assert complete.complete_of(masks.c2(data, clusters=4)) is not None
    for other in (masks.g2(data), masks.l2(data), masks.c1(data, clusters=4) | masks.l2(data)):
        assert complete.complete_of(other) is None
    assert complete.complete_of(block("nodes", "virtual")) is None  # a role without rows
