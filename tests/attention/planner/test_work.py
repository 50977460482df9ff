from __future__ import annotations

import pytest

from m3dphormer.attention.planner import Rates, Work, peak, recomputed_work, seconds, together
from m3dphormer.attention.planner.work import HEAP, Held

LARGE = 64 * 2**20  # bytes of a tensor that the system gives and takes back


def large(*, kept: float, forward: float = 0.0, backward: float = 0.0) -> Work:
    return Work().holds(LARGE, kept=kept, forward=forward, backward=backward)


def test_the_peak_is_forward_of_a_part_or_backward_behind_it() -> None:
    first = large(kept=10, forward=12)
    assert peak([first, large(kept=5, forward=40, backward=3)]) == 10 + 40
    assert peak([first, large(kept=5, forward=6, backward=30)]) == 10 + 5 + 30
    assert peak([Work(index=7), first]) == 7 + 12


def test_tensors_in_the_heap_take_more_than_their_bytes() -> None:
    assert peak([Work().holds(10, kept=10, forward=10)]) == pytest.approx(HEAP * 10)
    assert peak([Work(index=10)]) == 10


def test_the_heap_is_as_large_as_ever_when_mapped_tensors_are_at_their_height() -> None:
    small = Work().holds(10, forward=30)
    assert peak([small, large(kept=0, forward=50)]) == pytest.approx(HEAP * 30 + 50)


def test_holes_stay_in_the_heap() -> None:
    part = Work().holds(10, kept=10, forward=50).leaves(10, 40)
    assert peak([part, part, part]) == pytest.approx(HEAP * (50 + 50 + 50))
    whole = Work().holds(10, kept=10, forward=50)
    assert peak([whole] * 3) == pytest.approx(HEAP * (10 + 10 + 50))
    assert whole.leaves(LARGE, 40) == whole


def test_what_lives_together_is_added_up() -> None:
    both = together(Work(flops=2).holds(5, kept=1), Work(calls=4).holds(LARGE, kept=3, forward=6))
    assert (both.kept, both.flops, both.calls) == (4, 2, 4)
    assert (both.heap, both.mapped) == (Held(kept=1), Held(kept=3, forward=6))


def test_time_is_work_over_rates() -> None:
    rates = Rates(gemm=10, project=5, attend=20, scatter=5, warm=4, fresh=2, call=0.5)
    work = Work(flops=10, projected=5, attended=20, scattered=5, warm=4, fresh=2, calls=2)
    assert seconds([work], rates) == 7


def test_layers_that_are_recomputed_keep_their_state_alone() -> None:
    layer = [Work(flops=3).holds(10, kept=100, forward=120, backward=30)]
    many = [recomputed_work(layer, state=10)] * 8
    assert peak(many) < peak(layer * 8) / 3
    assert sum(work.flops for work in many) == 8 * 4
