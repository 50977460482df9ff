"""The compute plan: what is chosen for each region of a mask, and why."""

from __future__ import annotations

from dataclasses import dataclass

from m3dphormer.attention.dual import memory_threshold
from m3dphormer.attention.planner.cuts import Cut, cuts_of
from m3dphormer.attention.planner.schemes import Shape, dense_work, sparse_work
from m3dphormer.attention.structure.choose import Rule, choose
from m3dphormer.attention.structure.forms import Weights
from m3dphormer.masks import Mask


@dataclass(frozen=True)
class PlannedRegion:
    """A region of a mask and how each scheme with a choice computes it.

    Args:
        queries, keys: Roles of its rows.
        rows, columns: How many queries and keys.
        density: Share of non-zeros among queries x keys.
        threshold: Density under which Proposition 2 takes the sparse form.
        dense_bytes, sparse_bytes: What each form would keep for the backward pass.
        dual: "dense" or "sparse": what ``dual`` takes.
        fused: The form that ``fused`` takes.
        why: One line for each of the two choices.
    """

    mask: str
    queries: str
    keys: str
    rows: int
    columns: int
    nnz: int
    density: float
    threshold: float
    dense_bytes: int
    sparse_bytes: int
    dual: str
    fused: str
    why: dict[str, str]


def plan_mask(mask: Mask, weights: Weights, shape: Shape) -> list[PlannedRegion]:
    """The plan of one expert."""
    return [_plan(mask.name, cut, choose(weights, mask), shape) for cut in cuts_of(mask)]


def _plan(mask: str, cut: Cut, rule: Rule, shape: Shape) -> PlannedRegion:
    threshold = memory_threshold(shape.head_width)
    sparse = cut.density < threshold
    relation = "under" if sparse else "at least"
    by_dense, by_sparse = dense_work(cut, shape).kept, sparse_work(cut, shape).kept
    return PlannedRegion(
        mask=mask,
        queries=cut.queries,
        keys=cut.keys,
        rows=cut.shape[0],
        columns=cut.shape[1],
        nnz=cut.nnz,
        density=cut.density,
        threshold=threshold,
        dense_bytes=round(by_dense),
        sparse_bytes=round(by_sparse),
        dual="sparse" if sparse else "dense",
        fused=rule.name,
        why={
            "dual": f"density {cut.density:.2g} is {relation} 1/(3 d_h) = {threshold:.2g}",
            "fused": rule.why,
        },
    )
