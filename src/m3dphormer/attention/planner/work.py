"""What a piece of work holds and does: bytes for the memory, counts for the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from m3dphormer.attention.planner.rates import FRESH_FROM, Rates

NUMBER = 4  # bytes of a float32
HEAP = 1.2  # bytes that glibc's heap takes for each byte of tensors that come and go in it


@dataclass(frozen=True)
class Work:
    """One part of a training step; the counts are those of a step and an evaluation together.

    Args:
        index: Bytes that stay for the whole run.
        kept: Bytes that the forward pass leaves for the backward pass.
        forward: Most bytes at once in the forward pass, what is kept included.
        backward: Bytes that the backward pass needs beside what is kept.
        holes: Bytes of short-lived tensors whose room in the heap is not used again.
        flops: Of matrix products.
        attended: Pairs x width of fused dot products, or what takes as long.
        scattered: Numbers that are added up by row.
        warm, fresh: Bytes written to memory that the process had, or has to ask for.
        calls: Operators of torch.
        tensor: Bytes of its largest tensor.
    """

    index: float = 0.0
    kept: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    holes: float = 0.0
    flops: float = 0.0
    attended: float = 0.0
    scattered: float = 0.0
    warm: float = 0.0
    fresh: float = 0.0
    calls: float = 0.0
    tensor: float = 0.0

    def writes(self, tensor: float, times: float) -> Work:
        """The same with ``times`` tensors of ``tensor`` bytes written."""
        kind = "warm" if tensor < FRESH_FROM else "fresh"
        written = {kind: getattr(self, kind) + times * tensor}
        return replace(self, tensor=max(self.tensor, tensor), **written)

    @property
    def overhead(self) -> float:
        """Bytes for each byte held: larger tensors are the system's, page by page."""
        return HEAP if self.tensor < FRESH_FROM else 1.0


def together(*works: Work) -> Work:
    """Parts that are alive at the same time, as one."""
    names = {field.name for field in fields(Work)} - {"tensor"}
    sums = {name: sum(getattr(work, name) for work in works) for name in names}
    return Work(**sums, tensor=max(work.tensor for work in works))


def peak(works: Sequence[Work]) -> float:
    """Most bytes at once, of parts that follow each other forward and then backward."""
    kept = high = 0.0
    for work in works:
        most = max(work.forward, work.kept + work.backward)
        high = max(high, kept + work.overhead * most)
        kept += work.overhead * work.kept + work.holes
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
    most = (peak(works) - whole.index) / whole.overhead
    return replace(
        whole,
        kept=state,
        forward=most,
        backward=most,
        flops=again * whole.flops,
        attended=again * whole.attended,
        warm=again * whole.warm,
        fresh=again * whole.fresh,
        calls=again * whole.calls,
    )
