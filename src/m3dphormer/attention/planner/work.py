"""What a piece of work holds and does: bytes for the memory, counts for the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from m3dphormer.attention.planner.rates import FRESH_FROM, Rates

NUMBER = 4  # bytes of a float32
HEAP = 1.3  # bytes of glibc's heap for each that is counted: gradients stay in it here and there


@dataclass(frozen=True)
class Held:
    """Bytes of tensors in a training step.

    Args:
        kept: What the forward pass leaves for the backward pass.
        forward: Most at once in the forward pass, what is kept included.
        backward: What the backward pass needs beside what is kept.
    """

    kept: float = 0.0
    forward: float = 0.0
    backward: float = 0.0

    def __add__(self, other: Held) -> Held:
        return Held(
            self.kept + other.kept, self.forward + other.forward, self.backward + other.backward
        )


@dataclass(frozen=True)
class Work:
    """One part of a training step; the counts are those of a step and an evaluation together.

    Args:
        index: Bytes that stay for the whole run.
        heap: What it holds in tensors so small that glibc keeps their room.
        mapped: What it holds in larger ones, which the system gives and takes back.
        holes: Bytes of the heap that were freed between others that are kept. glibc aligns a tensor
            in more room than it takes: in the hole of one of its own size it finds no place.
        flops: Of matrix products by torch.
        projected: Of those by passes of our own.
        attended: Pairs x width of fused dot products, or what takes as long.
        scattered: Numbers that are added up by row.
        warm, fresh: Bytes written to memory that the process had, or has to ask for.
        calls: Operators of torch.
    """

    index: float = 0.0
    heap: Held = Held()
    mapped: Held = Held()
    holes: float = 0.0
    flops: float = 0.0
    projected: float = 0.0
    attended: float = 0.0
    scattered: float = 0.0
    warm: float = 0.0
    fresh: float = 0.0
    calls: float = 0.0

    def holds(
        self, tensor: float, *, kept: float = 0.0, forward: float = 0.0, backward: float = 0.0
    ) -> Work:
        """The same with so many bytes more, in tensors of ``tensor`` bytes."""
        more = Held(kept, forward, backward)
        if tensor < FRESH_FROM:
            return replace(self, heap=self.heap + more)
        return replace(self, mapped=self.mapped + more)

    def leaves(self, tensor: float, freed: float) -> Work:
        """The same with holes left by tensors of ``tensor`` bytes; larger ones leave none."""
        return replace(self, holes=self.holes + freed) if tensor < FRESH_FROM else self

    def writes(self, tensor: float, times: float) -> Work:
        """The same with ``times`` tensors of ``tensor`` bytes written."""
        if tensor < FRESH_FROM:
            return replace(self, warm=self.warm + times * tensor)
        return replace(self, fresh=self.fresh + times * tensor)

    @property
    def kept(self) -> float:
        """Bytes that the forward pass leaves for the backward pass."""
        return self.heap.kept + self.mapped.kept


def together(*works: Work) -> Work:
    """Parts that are alive at the same time, as one."""
    first, *others = works
    for work in others:
        names = [field.name for field in fields(Work)]
        first = Work(**{name: getattr(first, name) + getattr(work, name) for name in names})
    return first


def peak(works: Sequence[Work]) -> float:
    """Most bytes at once, of parts that follow each other forward and then backward.

    The heap stays as large as it ever was, so that its height and that of the mapped tensors add
    up, whenever each is reached.
    """
    holes = [work.holes for work in works]
    heap = HEAP * highest([work.heap for work in works], holes)
    return heap + highest([work.mapped for work in works]) + sum(work.index for work in works)


def highest(held: Sequence[Held], holes: Sequence[float] = ()) -> float:
    """Most bytes at once, with the holes that the parts leave behind."""
    kept = high = 0.0
    for i, part in enumerate(held):
        high = max(high, kept + part.forward, kept + part.kept + part.backward)
        kept += part.kept + (holes[i] if holes else 0.0)
    return high


def seconds(works: Iterable[Work], rates: Rates) -> float:
    """Time of one training step and one evaluation."""
    return sum(
        work.flops / rates.gemm
        + work.projected / rates.project
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


def trained_in_part(whole: Work, part: Work) -> Work:
    """A part of some work in training, all of it in evaluation: a quarter of the counts."""
    counts = ("flops", "projected", "attended", "scattered", "warm", "fresh", "calls")
    mixed = {name: (getattr(whole, name) + 3 * getattr(part, name)) / 4 for name in counts}
    return replace(part, index=whole.index + part.index, **mixed)


def recomputed_work(works: Sequence[Work], state: float) -> Work:
    """Parts of which only the state at their start is kept, and which are run once more."""
    whole, again = together(*works), 4 / 3  # forward, backward, evaluation; and forward
    heap, mapped = (highest([getattr(w, name) for w in works]) for name in ("heap", "mapped"))
    bare = replace(
        whole,
        heap=Held(0.0, heap, heap),
        mapped=Held(0.0, mapped, mapped),
        flops=again * whole.flops,
        projected=again * whole.projected,
        attended=again * whole.attended,
        warm=again * whole.warm,
        fresh=again * whole.fresh,
        calls=again * whole.calls,
    )
    return bare.holds(state, kept=state)
