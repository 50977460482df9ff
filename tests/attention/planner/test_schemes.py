"""What the forecast says is kept is what autograd keeps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.attention import attend, attend_additive
from m3dphormer.attention.planner import Rates, Shape, peak, scheme_works, seconds
from m3dphormer.attention.planner.work import Work

HEADS, WIDTH = 2, 16


def kept_bytes(scheme: str, mask: masks.Mask, *, additive: bool, dropout: float) -> int:
    """Bytes of all floating-point and bool tensors that autograd saves, each storage once."""
    total = mask.layout.total
    shape = (total, HEADS) if additive else (total, HEADS, WIDTH // HEADS)
    x, y = (torch.randn(shape, requires_grad=True) for _ in range(2))
    v = torch.randn(total, HEADS, WIDTH // HEADS, requires_grad=True)
    own = {tensor.untyped_storage().data_ptr() for tensor in (x, y, v)}
    saved: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if tensor.dtype != torch.int64 and place not in own:
            saved[place] = tensor
        return tensor

    run = attend_additive if additive else attend
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run(x, y, v, mask, scheme=scheme, dropout=dropout, seed=0)
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values())


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("scheme", ["sparse", "dual", "dense", "reference"])
@pytest.mark.parametrize("name", ["l2", "c4", "g1"])
def test_the_kept_bytes_of_a_scheme(name: str, scheme: str, additive: bool, dropout: float) -> None:
    data = random_graph(200, degree=12)
    mask = masks.build_from(name, data, {"clusters": 20}).widen(masks.g3(data).layout)
    shape = Shape(HEADS, WIDTH, additive, dropout > 0)
    said = sum(work.kept for work in scheme_works(scheme, mask, shape))
    got = kept_bytes(scheme, mask, additive=additive, dropout=dropout)
    # What is left out: copies of q, k and v, which belong to the layer, and sums by row.
    state = 4 * mask.layout.total * WIDTH * (2 if scheme == "reference" else 1)
    assert said <= got <= said + 5 * state + 0.02 * said


def test_fused_keeps_nothing_of_the_size_of_the_mask() -> None:
    thin, thick = (masks.l2(random_graph(200, degree=degree)) for degree in (2, 40))
    shape = Shape(HEADS, WIDTH, additive=False, dropped=True)
    kept = [sum(work.kept for work in scheme_works("fused", m, shape)) for m in (thin, thick)]
    assert kept[0] == kept[1]


def test_a_complete_mask_is_forecast_by_its_rows_where_torch_serves() -> None:
    mask = masks.g1(random_graph(200)).widen(masks.c1(random_graph(200), clusters=20).layout)
    shape = Shape(HEADS, WIDTH, additive=False, dropped=False)
    (said,) = scheme_works("fused", mask, shape)
    got = kept_bytes("fused", mask, additive=False, dropout=0.0)
    assert said.index == 0
    assert said.kept == pytest.approx(got, rel=0.01)


@pytest.mark.parametrize("additive", [False, True])
def test_no_forecast_of_a_complete_mask_grows_with_its_pairs(additive: bool) -> None:
    data = random_graph(60)
    data.num_nodes = 10**6  # 10^12 pairs
    for dropped in (False, True):
        shape = Shape(HEADS, WIDTH, additive, dropped)
        works = scheme_works("fused", masks.g1(data), shape)
        assert peak(works) < 50 * 4 * 10**6 * WIDTH
        assert seconds(works, Rates(1e11, 1e11, 1e9, 1e9, 1e9, 1e9, 1e-5)) > 100


def test_a_tensor_is_fresh_where_glibc_asks_the_system() -> None:
    assert Work().writes(33 * 2**20, 2).fresh == 66 * 2**20
    assert Work().writes(31 * 2**20, 2).warm == 62 * 2**20


def test_what_a_dense_attention_frees_leaves_holes_in_the_heap() -> None:
    data = random_graph(200, degree=12)

    def holes(rows: int, dropout: bool) -> float:
        """In score matrices."""
        mask = masks.g1(data).widen(masks.Layout(nodes=200, virtual=rows - 200))
        works = scheme_works("dense", mask, Shape(HEADS, WIDTH, False, dropout))
        return sum(work.holes for work in works) / (4 * HEADS * rows**2)

    assert holes(300, False) == 1  # the scores
    assert holes(300, True) > 2  # the hashes, too
    assert holes(2000, True) == 2  # the hashes are 64 MB, the system's; the weights not filled in
    assert holes(2000, False) == 1
    assert holes(2100, True) == holes(2100, False) == 0  # 35 MB
