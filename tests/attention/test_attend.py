"""Every scheme means what the reference means, in value and gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graphs import any_graphs, random_graph
from m3dphormer import attend, attend_additive
from m3dphormer.attention import SCHEMES
from m3dphormer.attention.attend import KINDS
from m3dphormer.errors import UserError
from m3dphormer.masks import Layout, Mask, build_from, c4, g3, l2

OTHERS = [scheme for scheme in SCHEMES if scheme != "reference"]

pytestmark = pytest.mark.filterwarnings("ignore:g3. class")  # drawn graphs often lack one


def dense_masks() -> st.SearchStrategy[Mask]:
    """Masks of every kind, in the widest layout: rows without keys, one node, one huge row."""

    def widest(name: str, data: object) -> Mask:
        layout = c4(data, clusters=1).layout | g3(data).layout  # type: ignore[arg-type]
        return build_from(name, data, {"clusters": 1}).widen(layout)  # type: ignore[arg-type]

    return st.builds(widest, st.sampled_from(["l2", "c4", "g3"]), any_graphs())


def tensors(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()


def same(inputs: list[Tensor], one: Tensor, other: Tensor) -> None:
    assert torch.isfinite(one).all()
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    weight = torch.randn(one.shape, generator=torch.Generator().manual_seed(1), dtype=one.dtype)
    for left, right in zip(
        torch.autograd.grad((one * weight).sum(), inputs),
        torch.autograd.grad((other * weight).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(left, right, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scheme", OTHERS)
@settings(max_examples=60)
@given(
    mask=dense_masks(),
    heads=st.integers(1, 3),
    width=st.sampled_from([1, 2, 33]),
    scale=st.sampled_from([1.0, 1e4]),
    dropout=st.sampled_from([0.0, 0.4]),
)
def test_dot_equals_the_reference(
    scheme: str, mask: Mask, heads: int, width: int, scale: float, dropout: float
) -> None:
    shape = (mask.layout.total, heads, width)
    q, k, v = (tensors(*shape, seed=i, scale=math.sqrt(scale) if i < 2 else 1.0) for i in range(3))
    ours = attend(q, k, v, mask, scheme=scheme, dropout=dropout, seed=5, call=2)
    law = attend(q, k, v, mask, scheme="reference", dropout=dropout, seed=5, call=2)
    same([q, k, v], ours, law)


@pytest.mark.parametrize("scheme", OTHERS)
@settings(max_examples=60)
@given(
    mask=dense_masks(),
    heads=st.integers(1, 3),
    width=st.sampled_from([1, 33]),
    scale=st.sampled_from([1.0, 1e4]),
    dropout=st.sampled_from([0.0, 0.4]),
)
def test_additive_equals_the_reference(
    scheme: str, mask: Mask, heads: int, width: int, scale: float, dropout: float
) -> None:
    a, b = (tensors(mask.layout.total, heads, seed=i, scale=scale) for i in range(2))
    v = tensors(mask.layout.total, heads, width, seed=2)
    ours = attend_additive(a, b, v, mask, scheme=scheme, dropout=dropout, seed=5)
    law = attend_additive(a, b, v, mask, scheme="reference", dropout=dropout, seed=5)
    same([a, b, v], ours, law)


def test_the_reference_is_the_formula_written_out() -> None:
    data = random_graph(20)
    mask = l2(data)
    q, k, v = (tensors(20, 2, 3, seed=i).detach() for i in range(3))
    out = attend(q, k, v, mask, scheme="reference")
    seen = mask.to_dense()
    for u in range(20):
        for h in range(2):
            keys = seen[u].nonzero().squeeze(1).tolist()
            score = [math.exp(float(q[u, h] @ k[w, h]) / math.sqrt(3)) for w in keys]
            expected = sum(s / sum(score) * v[w, h] for s, w in zip(score, keys, strict=True))
            torch.testing.assert_close(out[u, h], expected)


def test_the_additive_reference_is_the_formula_written_out() -> None:
    mask = l2(random_graph(20))
    a, b, v = tensors(20, 1, seed=0), tensors(20, 1, seed=1), tensors(20, 1, 3, seed=2)
    out = attend_additive(a, b, v, mask, scheme="reference")
    keys = mask.to_dense()[7].nonzero().squeeze(1)
    score = torch.nn.functional.leaky_relu(a[7] + b[keys], 0.2).exp()
    torch.testing.assert_close(out[7, 0], (score / score.sum() * v[keys, 0]).sum(0))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_row_without_keys_gives_exactly_zero(scheme: str) -> None:
    data = random_graph(20)
    mask = l2(data).widen(Layout(nodes=20, classes=3))
    q, k, v = (tensors(23, 2, 4, seed=i) for i in range(3))
    out = attend(q, k, v, mask, scheme=scheme)
    assert (out[20:] == 0).all()
    out.sum().backward()
    assert all(torch.isfinite(t.grad).all() for t in (q, k, v))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_float32_stays_float32_and_close_to_float64(scheme: str) -> None:
    mask = l2(random_graph(40))
    q, k, v = (tensors(40, 2, 8, seed=i).detach() for i in range(3))
    out = attend(q.float(), k.float(), v.float(), mask, scheme=scheme)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), attend(q, k, v, mask), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scheme", OTHERS)
def test_gradcheck(scheme: str) -> None:
    mask = l2(random_graph(12, degree=2))
    q, k, v = (tensors(12, 2, 3, seed=i) for i in range(3))
    assert torch.autograd.gradcheck(
        lambda q, k, v: attend(q, k, v, mask, scheme=scheme, dropout=0.3, seed=1), (q, k, v)
    )


def test_without_a_seed_torch_decides_what_is_dropped() -> None:
    mask = l2(random_graph(40))
    q, k, v = (tensors(40, 1, 4, seed=i).detach() for i in range(3))

    def run() -> Tensor:
        return attend(q, k, v, mask, dropout=0.5)

    torch.manual_seed(3)
    first, second = run(), run()
    torch.manual_seed(3)
    assert torch.equal(run(), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": torch.zeros(40, 4)}, "q and k must both be"),
        ({"k": torch.zeros(40, 1, 5)}, "q and k must both be"),
        ({"v": torch.zeros(39, 1, 4)}, "has 40 rows"),
        ({"v": torch.zeros(40, 2, 4)}, "has 40 rows"),
        ({"scheme": "spares"}, "Unknown scheme 'spares'. Did you mean sparse"),
        ({"dropout": 1.0}, r"range \[0, 1\)"),
        ({"dropout": -0.1}, r"range \[0, 1\)"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(change: dict[str, object], words: str) -> None:
    given = {name: torch.zeros(40, 1, 4) for name in "qkv"} | change
    with pytest.raises(UserError, match=words) as caught:
        attend(mask=l2(random_graph(40)), **given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


ONE_TYPE = "must have one type, of float32, float64, bfloat16, float16. Got "
GRID = torch.zeros(40, 2, 4)
ROWS = torch.zeros(40, 2)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": GRID.double()}, f"q, k and v {ONE_TYPE}float64, float32, float32"),
        ({"k": GRID.double()}, f"q, k and v {ONE_TYPE}float32, float64, float32"),
        ({"v": GRID.half()}, f"q, k and v {ONE_TYPE}float32, float32, float16"),
        ({"v": GRID.long()}, f"q, k and v {ONE_TYPE}float32, float32, int64"),
        (dict.fromkeys("qkv", GRID.long()), f"q, k and v {ONE_TYPE}int64, int64, int64"),
        (dict.fromkeys("qkv", GRID.bool()), f"q, k and v {ONE_TYPE}bool, bool, bool"),
        (dict.fromkeys("qkv", GRID.cfloat()), f"q, k and v {ONE_TYPE}complex64"),
        ({"q": GRID.to("meta")}, "q, k and v must be on one device. Got meta, cpu, cpu."),
        ({"v": GRID.to("meta")}, "q, k and v must be on one device. Got cpu, cpu, meta."),
        ({"k": GRID.numpy()}, "k must be a torch.Tensor. Got ndarray."),
        (dict.fromkeys("qkv", GRID[:, :0]), r"q needs a head and a width of 1 at least"),
        ({"v": GRID[..., :0]}, r"v needs a head and a width of 1 at least. Got \(40, 2, 0\)"),
        (dict.fromkeys("qkv", GRID[:39]), r"has 40 rows; v must be \[40, 2, d_h\]"),
        (dict.fromkeys("qk", GRID[:, :1]), r"v must be \[40, 1, d_h\]"),
        ({"v": ROWS}, r"v must be \[40, 2, d_h\] .* Got \(40, 2\)"),
    ],
)
def test_no_scheme_takes_what_another_refuses(
    scheme: str, change: dict[str, Tensor], words: str
) -> None:
    given = dict.fromkeys("qkv", GRID) | change
    with pytest.raises(UserError, match=words) as caught:
        attend(mask=l2(random_graph(40)), scheme=scheme, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"b": ROWS.double()}, f"a, b and v {ONE_TYPE}float32, float64, float32"),
        ({"v": GRID.int()}, f"a, b and v {ONE_TYPE}float32, float32, int32"),
        ({"a": ROWS.to("meta")}, "a, b and v must be on one device. Got meta, cpu, cpu."),
        ({"a": GRID}, r"a and b must both be \[T, H\]"),
        ({"b": ROWS[:, :1]}, r"a and b must both be \[T, H\]"),
        (dict.fromkeys("ab", ROWS[:39]), "the scores must have as many"),
        ({"v": ROWS}, r"v must be \[40, 2, d_h\]"),
    ],
)
def test_no_scheme_takes_what_another_refuses_additive(
    scheme: str, change: dict[str, Tensor], words: str
) -> None:
    given = {"a": ROWS, "b": ROWS, "v": GRID} | change
    with pytest.raises(UserError, match=words) as caught:
        attend_additive(mask=l2(random_graph(40)), scheme=scheme, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_scheme_takes_every_type_that_is_named(scheme: str, kind: torch.dtype) -> None:
    mask = l2(random_graph(40))
    q, k, v = (tensors(40, 2, 4, seed=i).detach().to(kind).requires_grad_() for i in range(3))
    out = attend(q, k, v, mask, scheme=scheme)
    assert out.dtype == kind
    law = attend(q.double(), k.double(), v.double(), mask, scheme="reference")
    torch.testing.assert_close(out.double(), law, rtol=0.05, atol=0.05)
    out.sum().backward()
    assert all(t.grad.dtype == kind for t in (q, k, v))
