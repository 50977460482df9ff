"""The kernels: every width and instruction set, the same bits on any threads, safe at the edges."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from graphs import random_graph
from m3dphormer import attend, attend_additive
from m3dphormer.attention import chunked, native
from m3dphormer.errors import UserError
from m3dphormer.masks import CSR, Mask, l2
from rows import hub, mask_of, power_law

needs_library = pytest.mark.skipif(native.library() is None, reason="the kernels are not built")
pytestmark = needs_library
SETS = [name for name in native.INSTRUCTION_SETS[1:] if native.available(name)]


@pytest.fixture(params=SETS)
def instruction_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    number = native.INSTRUCTION_SETS.index(request.param)
    monkeypatch.setattr(native, "instruction_set", lambda: number)
    return str(request.param)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def inputs(mask: Mask, heads: int, width: int, dtype: torch.dtype, kind: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    total = mask.layout.total
    scores = (total, heads, width) if kind == "dot" else (total, heads)
    shapes = [scores, scores, (total, heads, width)]
    return [torch.randn(s, generator=generator, dtype=dtype).requires_grad_() for s in shapes]


def run(kind: str, tensors: list[Tensor], mask: Mask, scheme: str, p: float = 0.3) -> list[Tensor]:
    """Output and gradients."""
    function = attend if kind == "dot" else attend_additive
    out = function(*tensors, mask, scheme=scheme, dropout=p, seed=7, call=1)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    return [out.detach(), *torch.autograd.grad((out * weight.to(out.dtype)).sum(), tensors)]


@pytest.mark.parametrize("kind", ["dot", "additive"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("heads", "width"),
    [(1, 1), (3, 33), (1, 8), (2, 16), (4, 32), (5, 7), (3, 64), (1, 128), (9, 4)],
)
def test_every_width_and_instruction_set_equals_the_reference(
    kind: str, dtype: torch.dtype, heads: int, width: int, instruction_set: str
) -> None:
    mask = power_law(300)
    tensors = inputs(mask, heads, width, dtype, kind)
    exact = [t.detach().double().requires_grad_() for t in tensors]
    tight = dtype == torch.float64
    for ours, law in zip(
        run(kind, tensors, mask, "fused"), run(kind, exact, mask, "reference"), strict=True
    ):
        tolerance = 1e-10 if tight else 2e-5 * max(1.0, float(law.abs().max()))
        torch.testing.assert_close(ours.double(), law, rtol=1e-9 if tight else 1e-4, atol=tolerance)


@pytest.mark.parametrize("kind", ["dot", "additive"])
def test_a_huge_row_and_a_huge_column_equal_the_sparse_scheme(kind: str) -> None:
    mask = hub()
    tensors = inputs(mask, 2, 16, torch.float64, kind)
    for ours, theirs in zip(
        run(kind, tensors, mask, "fused"), run(kind, tensors, mask, "sparse"), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_values_may_be_wider_than_queries() -> None:
    mask = power_law(200)
    q, k, _ = inputs(mask, 2, 8, torch.float64, "dot")
    v = inputs(mask, 2, 24, torch.float64, "dot")[2]
    for ours, law in zip(
        run("dot", [q, k, v], mask, "fused"), run("dot", [q, k, v], mask, "reference"), strict=True
    ):
        torch.testing.assert_close(ours, law, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["dot", "additive"])
@pytest.mark.parametrize("make", [hub, power_law])
@pytest.mark.usefixtures("threads")
def test_the_bits_are_the_same_on_any_number_of_threads_and_twice(kind: str, make: object) -> None:
    mask = make()  # type: ignore[operator]
    tensors = inputs(mask, 4, 32, torch.float32, kind)
    torch.set_num_threads(1)
    once = run(kind, tensors, mask, "fused")
    for number in (2, 2, 5):
        torch.set_num_threads(number)
        again = run(kind, tensors, mask, "fused")
        assert all(torch.equal(x, y) for x, y in zip(once, again, strict=True))


@pytest.mark.usefixtures("threads")
def test_a_forked_process_gives_the_same_bits() -> None:
    torch.set_num_threads(2)
    mask = hub(3000)
    tensors = [t.detach() for t in inputs(mask, 2, 16, torch.float32, "additive")]
    here = attend_additive(*tensors, mask)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def work() -> None:
        queue.put(attend_additive(*tensors, mask).numpy().tobytes())

    child = context.Process(target=work, daemon=True)
    child.start()
    assert queue.get(timeout=60) == here.numpy().tobytes()
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.usefixtures("threads")
def test_a_bare_fork_runs_forward_and_backward() -> None:
    torch.set_num_threads(2)
    mask = power_law(500)
    csr = mask.to_csr()
    tensors = [t.detach() for t in inputs(mask, 2, 16, torch.float32, "dot")]
    index = (csr.indptr, csr.indices, csr.transpose.indptr, csr.transpose.indices)
    index = (*index, None, 0.0, 0, 0)
    out, lse = torch.ops.m3dphormer.dot(*tensors, *index)
    child = os.fork()
    if child == 0:
        again, _ = torch.ops.m3dphormer.dot(*tensors, *index)
        torch.ops.m3dphormer.dot_backward(out, out, lse, *tensors, *index)
        os._exit(0 if again.numpy().tobytes() == out.numpy().tobytes() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("kind", ["dot", "additive"])
def test_views_and_expanded_gradients_give_what_their_copies_give(kind: str) -> None:
    mask = power_law(100)
    tensors = [t.detach() for t in inputs(mask, 4, 8, torch.float32, kind)]
    strange = [t.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_() for t in tensors]
    assert not strange[2].is_contiguous()
    plain = [t.requires_grad_() for t in tensors]
    for one, other in zip(
        run(kind, strange, mask, "fused"), run(kind, plain, mask, "fused"), strict=True
    ):
        assert torch.equal(one, other)
    function = attend if kind == "dot" else attend_additive
    function(*strange, mask).sum().backward()  # its gradient is one number, expanded
    function(*plain, mask).backward(torch.ones(100, 4, 8))
    assert all(torch.equal(x.grad, y.grad) for x, y in zip(strange, plain, strict=True))


def test_nan_stays_in_the_rows_that_see_it() -> None:
    mask = mask_of([[0, 1], [1], [2], [], [2, 4]])
    q, k, v = (torch.randn(5, 1, 4) for _ in range(3))
    k[0] = torch.nan
    out = attend(q, k, v, mask)
    assert out[0].isnan().all()
    assert out[1:].isfinite().all()
    assert (out[3] == 0).all()


def test_no_rows_and_no_entries_are_fine() -> None:
    q, k, v = (torch.randn(3, 2, 4, requires_grad=True) for _ in range(3))
    out = attend(q, k, v, mask_of([[], [], []]))
    out.sum().backward()
    assert all((t == 0).all() for t in (out, q.grad, k.grad, v.grad))
    empty = torch.randn(0, 2, 4)
    assert attend(empty, empty, empty, mask_of([])).shape == (0, 2, 4)


@pytest.mark.parametrize("index", [-1, 4, 2**40])
def test_a_csr_that_points_outside_is_refused(index: int) -> None:
    q, k, v, grad = (torch.randn(4, 1, 8) for _ in range(4))
    indptr, indices = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([0, 1, index, 3])
    good = torch.tensor([0, 1, 2, 3])
    with pytest.raises(UserError, match="outside"):
        torch.ops.m3dphormer.dot(q, k, v, indptr, indices, indptr, good, None, 0.0, 0, 0)
    for csr in ((indptr, indices, indptr, good), (indptr, good, indptr, indices)):
        with pytest.raises(UserError, match="outside"):
            torch.ops.m3dphormer.dot_backward(grad, v, v[..., 0], q, k, v, *csr, None, 0.0, 0, 0)
    with pytest.raises(UserError, match="outside"):
        torch.ops.m3dphormer.additive_backward(
            grad,
            v,
            v[..., 0],
            q[..., 0],
            k[..., 0],
            v,
            indptr,
            good,
            indptr,
            indices,
            None,
            0.0,
            0,
            0,
            0.2,
        )


@pytest.mark.parametrize("row", [-1, 4])
def test_an_order_that_points_outside_is_refused(row: int) -> None:
    q, ptr = torch.randn(4, 1, 8), torch.arange(5)
    ids, order = torch.arange(4), torch.tensor([0, row, 2, 3])
    with pytest.raises(UserError, match="outside"):
        torch.ops.m3dphormer.dot(q, q, q, ptr, ids, ptr, ids, order, 0.0, 0, 0)


@pytest.mark.parametrize(
    "indptr", [[1, 1, 2, 3, 4], [0, 3, 2, 3, 4], [0, 1, 2, 3, 5], [0, 9, 9, 9, 4]]
)
def test_an_indptr_that_does_not_grow_from_0_to_m_is_refused(indptr: list[int]) -> None:
    q = torch.randn(4, 1, 8)
    ptr, good = torch.tensor(indptr), torch.tensor([0, 1, 2, 3])
    with pytest.raises(UserError, match="outside"):
        torch.ops.m3dphormer.dot(q, q, q, ptr, good, ptr, good, None, 0.0, 0, 0)


def test_wrong_shapes_never_reach_the_kernels() -> None:
    csr = mask_of([[0], [1]]).to_csr()
    index = (csr.indptr, csr.indices, csr.indptr, csr.indices, None)
    good, drop = torch.zeros(2, 1, 4), (0.0, 0, 0)
    dot, back = torch.ops.m3dphormer.dot, torch.ops.m3dphormer.dot_backward
    for q, k, v in [
        (good, good, torch.zeros(3, 1, 4)),
        (good[:1], good, good),
        (good[..., :3], good, good),
        (good.half(), good.half(), good.half()),
    ]:
        with pytest.raises(UserError):
            dot(q, k, v, *index, *drop)
    with pytest.raises(UserError):
        dot(good, good, good, csr.indptr.int(), *index[1:], *drop)
    with pytest.raises(UserError):
        dot(good, good, good, csr.indptr[:2], *index[1:], *drop)
    with pytest.raises(UserError):
        back(good[:1], good, good[..., 0], good, good, good, *index, *drop)


@pytest.mark.parametrize("kind", ["dot", "additive"])
@pytest.mark.parametrize("p", [0.0, 0.4])
def test_the_torch_path_gives_the_same_numbers_in_small_chunks(
    kind: str, p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = power_law(200)
    tensors = inputs(mask, 2, 6, torch.float64, kind)
    ours = run(kind, tensors, mask, "fused", p)
    monkeypatch.setattr(native, "library", lambda: None)
    monkeypatch.setattr(chunked, "CHUNK", 1000)
    for one, other in zip(ours, run(kind, tensors, mask, "fused", p), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_half_precision_goes_the_torch_way() -> None:
    mask = power_law(100)
    q, k, v = (t.detach() for t in inputs(mask, 2, 8, torch.float32, "dot"))
    out = attend(q.bfloat16(), k.bfloat16(), v.bfloat16(), mask)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), attend(q, k, v, mask), rtol=0.05, atol=0.05)


def test_the_transpose_turns_every_pair_round() -> None:
    csr = power_law(50).to_csr()
    back: CSR = csr.transpose
    pairs = set(zip(csr.rows.tolist(), csr.indices.tolist(), strict=True))
    assert {(u, v) for v, u in zip(back.rows.tolist(), back.indices.tolist(), strict=True)} == pairs
    assert all(
        (back.indices[a:b].diff() > 0).all() for a, b in back.indptr.unfold(0, 2, 1).tolist()
    )
    symmetric = l2(random_graph(20)).to_csr()
    assert symmetric.transpose is symmetric
