"""A sparse map is the dense one, in value and gradient, on every machine."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from m3dphormer.attention import native
from m3dphormer.attention.structure import passes, sparse
from m3dphormer.attention.structure.sparse import Sparse

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")


def problem(
    rows: int, features: int, outputs: int, density: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A matrix with empty rows and columns, a weight, a bias, and a gradient of the result."""
    torch.manual_seed(0)
    x = torch.randn(rows, features, dtype=dtype) * (torch.rand(rows, features) < density)
    x[::5], x[:, 3::7] = 0, 0
    weight, bias = torch.randn(outputs, features, dtype=dtype), torch.randn(outputs, dtype=dtype)
    return x, weight, bias, torch.randn(rows, outputs, dtype=dtype)


def results(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, grad: torch.Tensor
) -> list[torch.Tensor]:
    """The map and its gradients, from packed values and from those of X."""
    packed, plain, out = (
        Sparse.of(x, packed=True),
        Sparse.of(x, packed=False),
        torch.empty_like(grad),
    )
    packed.times(weight, bias, out)
    return [out, *packed.to_weights(grad), *plain.to_weights(grad)]


def check(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    grad: torch.Tensor,
    tolerance: float,
) -> None:
    given = [x, weight, grad]
    wide, wide_weight, wide_grad = (tensor.double() for tensor in given)
    law = wide @ wide_weight.t()
    law = law if bias is None else law + bias.double()
    gradients = wide_grad.t() @ wide, wide_grad.sum(0)
    for found, right in zip(
        results(x, weight, bias, grad), (law, *gradients, *gradients), strict=True
    ):
        torch.testing.assert_close(found.double(), right, rtol=tolerance, atol=tolerance)


@given(
    st.integers(1, 400),
    st.sampled_from([1, 2, 15, 16, 17, 40, 129]),
    st.sampled_from([1, 3, 7, 16, 22, 33, 64, 100, 128, 200]),
    st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_sparse_map_and_its_gradients_are_plain_products(
    rows: int, features: int, outputs: int, density: float, biased: bool
) -> None:
    x, weight, bias, grad = problem(rows, features, outputs, density, torch.float64)
    check(x, weight, bias if biased else None, grad, tolerance=1e-11)


@pytest.mark.parametrize("name", native.INSTRUCTION_SETS[1:])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_instruction_set_gives_the_same(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native.available(name):
        pytest.skip(f"this machine cannot run {name}")
    monkeypatch.setattr(native, "instruction_set", lambda: native.INSTRUCTION_SETS.index(name))
    passes._pass.cache_clear()
    try:
        shape = problem(1500, 70, 141, 0.15, dtype)
        check(*shape, tolerance=1e-3 if dtype == torch.float32 else 1e-11)
    finally:
        passes._pass.cache_clear()


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    given, before, found = problem(3000, 90, 72, 0.1, torch.float32), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            found.append(results(*given))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_transposed_and_strided_tensors_are_taken_as_they_are() -> None:
    x, weight, bias, grad = problem(60, 30, 12, 0.2, torch.float64)
    check(
        x.t().contiguous().t(), weight.t().contiguous().t(), bias, grad[:, ::2].repeat(1, 2), 1e-11
    )
    check(x[::2], weight, bias, grad[::2], 1e-11)


def test_a_number_that_is_none_stays_in_its_row_and_column() -> None:
    x, weight, bias, grad = problem(50, 16, 16, 0.3, torch.float32)
    x[7, 4] = float("nan")
    out, by_weight, by_bias, *_ = results(x, weight, bias, grad)
    assert out.isnan().any(1).nonzero().tolist() == [[7]]
    assert by_weight.isnan().any(0).nonzero().tolist() == [[4]]
    assert by_bias.isfinite().all()


@pytest.mark.parametrize("packed", [True, False])
def test_dropped_values_are_dropped_both_ways(packed: bool) -> None:
    x, weight, _, grad = problem(300, 20, 9, 0.3, torch.float64)
    given = Sparse.of(x, packed=packed).dropped(0.4)
    by_weight, _ = given.to_weights(torch.eye(300).double())  # X itself
    kept = by_weight != 0
    torch.testing.assert_close(by_weight, torch.where(kept, x / 0.6, 0.0))
    assert 0.4 < float(kept.sum() / (x != 0).sum()) < 0.8
    if packed:
        out = torch.empty_like(grad)
        given.times(weight, None, out)
        torch.testing.assert_close(out, by_weight @ weight.t())


def test_blocks_are_larger_where_non_zeros_are_rare() -> None:
    assert sparse.block_rows(0.35) == sparse.BLOCK
    assert sparse.block_rows(0.01) == 100 * sparse.RUN
    assert Sparse.of(torch.zeros(40, 3), packed=True).block == 40
