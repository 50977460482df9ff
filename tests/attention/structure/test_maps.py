"""Several linear maps of one matrix are those maps, in value and gradient, on every machine."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from m3dphormer.attention import native
from m3dphormer.attention.structure import maps, passes
from m3dphormer.attention.structure.maps import Map

pytestmark = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")


def problem(
    rows: int, width: int, outputs: list[int], limits: list[int], dtype: torch.dtype
) -> tuple[torch.Tensor, list[Map], list[torch.Tensor]]:
    """A matrix, maps of it (every second one without a bias), and gradients of the results."""
    torch.manual_seed(0)
    x = torch.randn(rows, width, dtype=dtype)
    made = [
        Map(
            torch.randn(n, width, dtype=dtype),
            None if i % 2 else torch.randn(n, dtype=dtype),
            limit,
        )
        for i, (n, limit) in enumerate(zip(outputs, limits, strict=True))
    ]
    return x, made, [torch.randn(each.rows, len(each.weight), dtype=dtype) for each in made]


def check(x: torch.Tensor, made: list[Map], grads: list[torch.Tensor], tolerance: float) -> None:
    near = {"rtol": tolerance, "atol": tolerance}
    for each, out in zip(made, maps.apply(x, made), strict=True):
        law = torch.nn.functional.linear(x[: each.rows], each.weight, each.bias)
        torch.testing.assert_close(out, law, **near)
    law = torch.zeros_like(x)
    for each, grad in zip(made, grads, strict=True):
        law[: each.rows] += grad @ each.weight
    by_rows = maps.to_rows([each.weight for each in made], grads, len(x))
    torch.testing.assert_close(by_rows, law, **near)
    found = maps.to_weights(x, grads)
    for each, grad, (by_weight, by_bias) in zip(made, grads, found, strict=True):
        torch.testing.assert_close(by_weight, grad.t() @ x[: each.rows], **near)
        torch.testing.assert_close(by_bias, grad.sum(0), **near)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int, list[int], list[int]]:
    rows, count = draw(st.integers(1, 400)), draw(st.integers(1, 4))
    width = draw(st.sampled_from([1, 3, 7, 16, 22, 33, 64, 128]))
    outputs = draw(st.lists(st.integers(1, 70), min_size=count, max_size=count))
    limits = draw(st.lists(st.integers(1, rows), min_size=count, max_size=count))
    return rows, width, outputs, limits


@given(shapes())
@settings(max_examples=60, deadline=None)
def test_maps_and_their_gradients_are_plain_products(
    shape: tuple[int, int, list[int], list[int]],
) -> None:
    check(*problem(*shape, torch.float64), tolerance=1e-11)


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
        tolerance = 2e-3 if dtype == torch.float32 else 1e-10
        check(*problem(2500, 37, [64, 5, 128], [2500, 2400, 1], dtype), tolerance)
        narrow, limits = [2, 4, 4, 128, 12, 33], [700, 650, 700, 600, 1, 700]
        check(*problem(700, 128, narrow, limits, dtype), tolerance)
    finally:
        passes._pass.cache_clear()


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    outputs, limits = [48, 7, 2, 96, 12], [5000, 5000, 4500, 4000, 5000]
    x, made, grads = problem(5000, 48, outputs, limits, torch.float32)
    weights, before = [each.weight for each in made], torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            both = maps.to_weights(x, grads)
            found.append(
                [
                    *maps.apply(x, made),
                    maps.to_rows(weights, grads, len(x)),
                    *(part for pair in both for part in pair),
                ]
            )
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_transposed_and_strided_tensors_are_taken_as_they_are() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(9, 40).t(), torch.randn(18, 12)[::2].t()  # [40, 9], [12, 9]
    (out,) = maps.apply(x, [Map(weight, None, 40)])
    torch.testing.assert_close(out, x @ weight.t(), rtol=1e-5, atol=1e-5)


def test_a_row_that_is_not_a_number_stays_alone() -> None:
    x, made, _ = problem(50, 16, [16], [50], torch.float32)
    x[7] = float("nan")
    (out,) = maps.apply(x, made)
    assert out[7].isnan().all()
    assert out.isnan().any(dim=1).sum() == 1


def test_a_row_that_a_map_does_not_read_does_not_reach_its_gradient() -> None:
    x, _, grads = problem(50, 16, [3, 40, 5], [50, 30, 20], torch.float32)
    x[40] = float("nan")
    of_all, *of_some = maps.to_weights(x, grads)
    assert of_all[0].isnan().all()
    assert not any(part.isnan().any() for pair in of_some for part in pair)
