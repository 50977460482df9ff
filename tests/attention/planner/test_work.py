from __future__ import annotations

from dataclasses import replace

import pytest

from m3dphormer.attention.planner import Rates, Work, peak, recomputed_work, seconds, together
from m3dphormer.attention.planner.work import HEAP

LARGE = 64 * 2**20  # bytes of a tensor that the system gives and takes back


def test_the_peak_is_forward_of_a_part_or_backward_behind_it() -> None:
    first = Work(kept=10, forward=12, tensor=LARGE)
    assert peak([first, Work(kept=5, forward=40, backward=3, tensor=LARGE)]) == 10 + 40
    assert peak([first, Work(kept=5, forward=6, backward=30, tensor=LARGE)]) == 10 + 5 + 30
    assert peak([Work(index=7), first]) == 7 + 12


def test_tensors_in_the_heap_take_more_than_their_bytes() -> None:
    small, large = Work(kept=10, forward=10), Work(kept=10, forward=10, tensor=LARGE)
    assert peak([small, large]) == pytest.approx(HEAP * 10 + 10)
    assert peak([Work(index=10)]) == 10


def test_holes_stay() -> None:
    part = Work(kept=10, forward=50, holes=40, tensor=LARGE)
    assert peak([part, part, part]) == 50 + 50 + 50
    assert peak([replace(part, holes=0.0)] * 3) == 10 + 10 + 50


def test_what_lives_together_is_added_up() -> None:
    both = together(Work(kept=1, flops=2, tensor=5), Work(kept=3, calls=4, tensor=6))
    assert (both.kept, both.flops, both.calls, both.tensor) == (4, 2, 4, 6)


def test_time_is_work_over_rates() -> None:
    rates = Rates(gemm=10, attend=20, scatter=5, warm=4, fresh=2, call=0.5)
    work = Work(flops=10, attended=20, scattered=5, warm=4, fresh=2, calls=2)
    assert seconds([work], rates) == 6


def test_layers_that_are_recomputed_keep_their_state_alone() -> None:
    layer = [Work(kept=100, forward=120, backward=30, flops=3)]
    many = [recomputed_work(layer, state=10)] * 8
    assert peak(many) < peak(layer * 8) / 3
    assert sum(work.flops for work in many) == 8 * 4
