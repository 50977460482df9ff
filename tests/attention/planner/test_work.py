from __future__ import annotations

from m3dphormer.attention.planner import Rates, Work, peak, recomputed_work, seconds, together


def test_the_peak_is_forward_of_a_part_or_backward_behind_it() -> None:
    first, second = Work(kept=10, forward=12), Work(kept=5, forward=40, backward=3)
    assert peak([first, second]) == 10 + 40
    assert peak([first, Work(kept=5, forward=6, backward=30)]) == 10 + 5 + 30
    assert peak([Work(index=7), first]) == 7 + 12


def test_what_lives_together_is_added_up() -> None:
    both = together(Work(kept=1, flops=2), Work(kept=3, calls=4))
    assert (both.kept, both.flops, both.calls) == (4, 2, 4)


def test_time_is_work_over_rates() -> None:
    rates = Rates(gemm=10, attend=20, scatter=5, warm=4, fresh=2, call=0.5)
    work = Work(flops=10, attended=20, scattered=5, warm=4, fresh=2, calls=2)
    assert seconds([work], rates) == 6


def test_layers_that_are_recomputed_keep_their_state_alone() -> None:
    layer = [Work(kept=100, forward=120, backward=30, flops=3)]
    many = [recomputed_work(layer, state=10)] * 8
    assert peak(many) < peak(layer * 8) / 3
    assert sum(work.flops for work in many) == 8 * 4
