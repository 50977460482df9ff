"""What one attention holds and does under each scheme, counted from the code of the schemes.

A pair is one entry of the mask; H heads of width d_h, d = H d_h. Numbers are float32, in
``reference`` float64. Where a tensor is kept, autograd keeps it for the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from m3dphormer.attention.complete import complete_of, parts_of
from m3dphormer.attention.dual import memory_threshold
from m3dphormer.attention.planner.cuts import Cut, cuts_of, whole
from m3dphormer.attention.planner.rates import FRESH_FROM
from m3dphormer.attention.planner.work import NUMBER, Work, together
from m3dphormer.attention.slabs import LISTED
from m3dphormer.masks import Mask

HASH_HELD = 25  # bytes an entry at the height of Dropout.scale: int64, two float64, a bool
HASHED = 8  # bytes of a hash
HASH_WRITTEN = 125  # bytes an entry that it writes: a dozen int64 operators and three of floats
INDEX = 8  # bytes of a row number
ADDITIVE_PAIR = 0.3  # of a dot product's time that a pair takes in the additive kernel,
ADDITIVE_ROW = 1.5  # and each row beside its pairs


@dataclass(frozen=True)
class Shape:
    """An attention apart from its mask: additive or dot-product scores, dropped or not."""

    heads: int
    width: int
    additive: bool
    dropped: bool

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def sparse_work(cut: Cut, shape: Shape) -> Work:
    """Algorithm 2 over the pairs: ``attend_pairs``."""
    gathered = NUMBER * cut.nnz * shape.width  # [m, H, d_h]
    scored = NUMBER * cut.nnz * shape.heads  # [m, H]
    selected = 2 if shape.additive else 4  # messages and v, or these and q and k of each pair
    kept = selected * gathered
    scores = ((4 if shape.additive else 3) + shape.dropped) * scored
    work = (
        Work(scattered=cut.nnz * shape.width * (3 if shape.additive else 5), calls=95)
        .holds(gathered, kept=kept, forward=kept, backward=2 * gathered)
        .holds(scored, kept=scores, forward=scores, backward=3 * scored)
        .writes(gathered, 7 if shape.additive else 15)
        .writes(scored, 24)
    )
    if not shape.dropped:
        return work
    hashed = HASH_HELD / NUMBER * scored
    if 2 * scored < FRESH_FROM and gathered < FRESH_FROM:
        hashed = max(0.0, hashed - 2 * gathered)  # hashed before values are gathered
    return work.holds(2 * scored, forward=hashed).writes(2 * scored, HASH_WRITTEN / HASHED)


def dense_work(cut: Cut, shape: Shape, *, wide: bool = False) -> Work:
    """Algorithm 1 over queries x keys: ``attend_rows``, or ``reference`` in float64."""
    number = 8 if wide else NUMBER
    entries = cut.area * shape.heads
    matrix = number * entries  # [H, queries, keys]
    masked = 0 if cut.full and not wide else cut.area  # a bool for each pair
    before = matrix if shape.additive else 0.0  # what LeakyReLU keeps
    filled = wide or cut.gaps  # the weights once more, with 0 for who sees nobody
    weights = 3 if shape.dropped else 1 + filled
    first = (2 + filled) * matrix + before  # while dropout is drawn
    work = (
        Work(flops=16 * cut.area * shape.width * (2 if wide else 1), calls=70)
        .holds(
            matrix,
            kept=weights * matrix + before,
            forward=first if shape.dropped else first + matrix,
            backward=(2 + shape.additive) * matrix,
        )
        .holds(cut.area, kept=(2 if wide else 1) * masked, forward=2 * masked)
        .writes(matrix, (12 if cut.full else 20) + 3 * shape.additive + 3 * filled)
    )
    # Masked scores lie beside the scores: in the room of both the next scores find a place.
    if not shape.dropped:
        return work.leaves(matrix, matrix)
    hashes = HASHED * entries
    work = work.holds(hashes, forward=HASH_HELD * entries).writes(hashes, HASH_WRITTEN / HASHED)
    if hashes >= FRESH_FROM:
        return work.leaves(matrix, (1 + filled) * matrix)  # the weights before they are filled in
    # Weights in float64 are as long as a hash, and fit into none of its holes either.
    return work.leaves(hashes, work.heap.forward - work.heap.kept + wide * matrix)


def fused_work(mask: Mask, rows: int, shape: Shape) -> Work:
    """Our kernels over any mask; q, k, v and the output are the layer's."""
    complete = complete_of(mask) is not None
    if complete and not shape.additive and not shape.dropped:
        return _complete_work(cuts_of(mask)[0], shape)
    state = NUMBER * rows * shape.width
    per_head = NUMBER * rows * shape.heads
    given = (2 * per_head + state) if shape.additive else 3 * state
    pairs = ADDITIVE_PAIR * mask.nnz + ADDITIVE_ROW * rows if shape.additive else mask.nnz
    work = Work(
        index=INDEX * 4 * mask.nnz,
        attended=pairs * shape.width,
        calls=40,
    ).holds(state, kept=per_head, forward=per_head, backward=given + per_head)
    if not complete or mask.nnz <= LISTED:
        return work
    slab, times = INDEX * 2 * LISTED, mask.nnz / LISTED
    slabs = (  # one is still there while the next is listed
        Work(calls=40 * times)
        .holds(slab, forward=2 * slab, backward=2 * slab)
        .holds(state, forward=state, backward=given)
        .writes(slab, 3 * times)
    )
    return together(replace(work, index=0.0), slabs)


def _complete_work(cut: Cut, shape: Shape) -> Work:
    """Torch's attention between two sets of rows; it keeps them head by head, and its answer."""
    queries, keys = (NUMBER * rows * shape.width for rows in cut.shape)
    per_head = NUMBER * cut.shape[0] * shape.heads
    kept = 2 * queries + 2 * keys + per_head
    work = Work(flops=18 * cut.area * shape.width, calls=40).writes(queries, 8)
    backward = 2 * queries + 2 * (1 + parts_of(shape.heads)) * keys
    return work.holds(max(queries, keys), kept=kept, forward=kept + queries, backward=backward)


def scheme_works(scheme: str, mask: Mask, shape: Shape) -> list[Work]:
    """One attention over a mask under any scheme, its index included, projections not."""
    pairs = Work(index=2 * INDEX * mask.nnz)  # the CSR
    everything = whole(mask)
    if scheme == "fused":
        return [fused_work(mask, mask.layout.total, shape)]
    if scheme == "sparse":
        return [pairs, sparse_work(everything, shape)]
    if scheme == "dense":
        return [pairs, Work(index=everything.area), dense_work(everything, shape)]
    if scheme == "reference":
        return [pairs, dense_work(everything, shape, wide=True)]
    return [_dual_work(cut, shape) for cut in cuts_of(mask)]


def _dual_work(cut: Cut, shape: Shape) -> Work:
    listed = Work(index=4 * INDEX * cut.nnz)
    if cut.density < memory_threshold(shape.head_width):
        return together(listed, sparse_work(cut, shape))
    seen = Work(index=0.0 if cut.full else cut.area)
    return together(listed, seen, dense_work(cut, shape))
