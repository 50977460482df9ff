"""What an expert's attention holds and does in a layer that is computed by its structure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from m3dphormer.attention.planner.schemes import Shape, fused_work
from m3dphormer.attention.planner.work import NUMBER, Work, together
from m3dphormer.attention.structure.choose import choose
from m3dphormer.attention.structure.forms import Weights, narrowed
from m3dphormer.masks import Mask

STAR_ROW = 2.7  # pairs of fused dot products that take as long as a member of a star
CLASS_ROW, CLASS = 2, 0.5  # and as long as a node that sees class nodes, and each of these
STEP = 8  # flops a multiplication in a product, forward twice (once to evaluate) and backward


def structured_work(weights: Weights, mask: Mask, shape: Shape) -> Work:
    """An expert with the projections that its form leaves."""
    return _FORMS[choose(weights, mask).name](mask, shape)


def _by_rows(mask: Mask, shape: Shape, projections: int, *, calls: int) -> Work:
    """Values and, for dot products, queries and keys of the rows that the mask touches."""
    rows = narrowed(mask).layout.total
    state = NUMBER * rows * shape.width
    kept = (projections + 1) * state
    own = Work(projected=STEP * projections * rows * shape.width**2, calls=calls)
    own = own.holds(state, kept=kept, forward=kept).writes(state, 4 * projections + 3)
    return together(own, fused_work(mask, rows, shape))


def _by_star(mask: Mask, shape: Shape) -> Work:
    """Queries, keys and values of members and centres; no list of pairs."""
    attended = STAR_ROW * narrowed(mask).layout.total * shape.width
    return replace(_by_rows(mask, shape, 3, calls=80), index=0.0, attended=attended)


def _by_degrees(mask: Mask, shape: Shape) -> Work:
    """Values, and the answer once more, scaled."""
    scaled = NUMBER * narrowed(mask).layout.total * shape.width
    return _by_rows(mask, shape, 1, calls=120).holds(scaled, kept=scaled, forward=scaled)


def _by_classes(mask: Mask, shape: Shape, *, queries: bool) -> Work:
    """Scores of real nodes for the class nodes; these read the state itself."""
    nodes, classes = mask.layout.nodes, mask.layout.classes
    state, scores = (NUMBER * nodes * n for n in (shape.width, shape.heads * classes))
    kept = queries * state + 2 * scores
    outputs = shape.width + classes if queries else shape.heads * classes
    work = Work(
        projected=STEP * nodes * shape.width * (outputs + classes),
        attended=nodes * (CLASS_ROW + CLASS * classes) * shape.width,
        calls=260,
    ).writes(state, 4 * queries)
    backward = 2 * scores + queries * state
    return work.holds(state, kept=kept, forward=kept, backward=backward)


_FORMS: dict[str, Callable[[Mask, Shape], Work]] = {
    "degrees": _by_degrees,
    "short scores": lambda mask, shape: _by_rows(mask, shape, 1, calls=200),
    "star": _by_star,
    "complete": lambda mask, shape: _by_rows(mask, shape, 3, calls=80),
    "plain": lambda mask, shape: _by_rows(mask, shape, 3, calls=80),
    "class scores": lambda mask, shape: _by_classes(mask, shape, queries=False),
    "class queries": lambda mask, shape: _by_classes(mask, shape, queries=True),
}
