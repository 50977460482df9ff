"""What a piece of work holds and does: bytes for the memory, counts for the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from m3dphormer.attention.planner.rates import FRESH_FROM, Rates

NUMBER = 4  # bytes of a float32


@dataclass(frozen=True)
class Work:
    """One part of a training step; the counts are those of a step and an evaluation together.

    Args:
        index: Bytes that stay for the whole run.
        kept: Bytes that the forward pass leaves for the backward pass.
        forward: Most bytes at once in the forward pass, what is kept included.
        backward: Bytes that the backward pass needs beside what is kept.
        flops: Of matrix products.
        attended: Numbers that the fused kernels read: pairs x width.
        scattered: Numbers that are added up by row.
        warm, fresh: Bytes written to memory that the process had, or has to ask for.
        calls: Operators of torch.
    """

    index: float = 0.0
    kept: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    flops: float = 0.0
    attended: float = 0.0
    scattered: float = 0.0
    warm: float = 0.0
    fresh: float = 0.0
    calls: float = 0.0

    def writes(self, tensor: float, times: float) -> Work:
        """The same with ``times`` tensors of ``tensor`` bytes written."""
        if tensor >= FRESH_FROM:
            return replace(self, fresh=self.fresh + times * tensor)
        return replace(self, warm=self.warm + times * tensor)


def together(*works: Work) -> Work:
    """Parts that are alive at the same time, as one."""
    names = [field.name for field in fields(Work)]
    return Work(**{name: sum(getattr(work, name) for work in works) for name in names})


def peak(works: Sequence[Work]) -> float:
    """Most bytes at once, of parts that follow each other forward and then backward."""
    kept = high = 0.0
    for work in works:
        high = max(high, kept + work.forward, kept + work.kept + work.backward)
        kept += work.kept
    return high + sum(work.index for work in works)


def seconds(works: Iterable[Work], rates: Rates) -> float:
    """Time of one training step and one evaluation."""
    return sum(
        work.flops / rates.gemm
        + work.attended / rates.attend
        + work.scattered / rates.scatter
        + work.warm / rates.warm
        + work.fresh / rates.fresh
        + work.calls * rates.call
        for work in works
    )


def without_index(work: Work) -> Work:
    """The same where the index is there already."""
    return replace(work, index=0.0)


def recomputed_work(works: Sequence[Work], state: float) -> Work:
    """Parts of which only the state at their start is kept, and which are run once more."""
    whole, again = together(*works), 4 / 3  # forward, backward, evaluation; and forward
    return replace(
        whole,
        kept=state,
        forward=peak(works) - whole.index,
        backward=peak(works) - whole.index,
        flops=again * whole.flops,
        attended=again * whole.attended,
        warm=again * whole.warm,
        fresh=again * whole.fresh,
        calls=again * whole.calls,
    )
