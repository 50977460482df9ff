"""What an expert's attention holds and does in a layer that is computed by its structure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from m3dphormer.attention.planner.schemes import Shape, fused_work
from m3dphormer.attention.planner.work import NUMBER, Work, together
from m3dphormer.attention.structure.choose import choose
from m3dphormer.attention.structure.forms import Weights, narrowed
from m3dphormer.masks import Mask

STEP = 8  # flops a multiplication in a product, forward twice (once to evaluate) and backward


def structured_work(weights: Weights, mask: Mask, shape: Shape) -> Work:
    """An expert with the projections that its form leaves."""
    return _FORMS[choose(weights, mask).name](mask, shape)


def _by_rows(mask: Mask, shape: Shape, projections: int, *, index: bool, calls: int) -> Work:
    """Values and, for dot products, queries and keys of the rows that the mask touches."""
    rows = narrowed(mask).layout.total
    state = NUMBER * rows * shape.width
    kept = (projections + 1) * state
    own = Work(
        kept=kept,
        forward=kept,
        flops=STEP * projections * rows * shape.width**2,
        calls=calls,
    ).writes(state, 4 * projections + 3)
    attention = fused_work(mask, rows, shape)
    return together(own, attention if index else replace(attention, index=0.0))


def _by_degrees(mask: Mask, shape: Shape) -> Work:
    """Values, and the answer once more, scaled."""
    scaled = NUMBER * narrowed(mask).layout.total * shape.width
    return together(
        _by_rows(mask, shape, 1, index=True, calls=120), Work(kept=scaled, forward=scaled)
    )


def _by_classes(mask: Mask, shape: Shape, *, queries: bool) -> Work:
    """Scores of real nodes for the class nodes; these read the state itself."""
    nodes, classes = mask.layout.nodes, mask.layout.classes
    state, scores = (NUMBER * nodes * n for n in (shape.width, shape.heads * classes))
    kept = (1 + queries) * state + scores
    outputs = shape.width + classes if queries else shape.heads * classes
    return Work(
        kept=kept,
        forward=kept + scores,
        backward=scores + queries * state,
        flops=STEP * nodes * shape.width * (outputs + classes),
        attended=nodes * classes * shape.width,
        calls=260,
    ).writes(state, 3 + 4 * queries)


_FORMS: dict[str, Callable[[Mask, Shape], Work]] = {
    "degrees": _by_degrees,
    "short scores": lambda mask, shape: _by_rows(mask, shape, 1, index=True, calls=200),
    "star": lambda mask, shape: _by_rows(mask, shape, 3, index=False, calls=80),
    "complete": lambda mask, shape: _by_rows(mask, shape, 3, index=True, calls=80),
    "plain": lambda mask, shape: _by_rows(mask, shape, 3, index=True, calls=80),
    "class scores": lambda mask, shape: _by_classes(mask, shape, queries=False),
    "class queries": lambda mask, shape: _by_classes(mask, shape, queries=True),
}
