"""Which form computes an expert: the first rule that fits its weights and mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from m3dphormer.attention.complete import complete_of
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import classes, forms, star
from m3dphormer.attention.structure.forms import (
    AdditiveWeights,
    DotWeights,
    Form,
    GCNWeights,
    Weights,
)
from m3dphormer.masks import Mask


@dataclass(frozen=True)
class Rule:
    """A form and where it is taken.

    Args:
        name: What the form is called.
        why: One line for the plan.
        fits: Whether the form can serve, and pays.
        build: The form for weights, mask, the class nodes' states, dropout.
        confined: Whether a real node's answer needs no other real node.
    """

    name: str
    why: str
    fits: Callable[[Weights, Mask], bool]
    build: Callable[[Any, Mask, Tensor, Dropout | None], Form]
    confined: bool = False


def _few_scores(weights: Weights, mask: Mask) -> bool:
    """H * C < d: scoring all class nodes is cheaper than a projection of the queries."""
    if not isinstance(weights, DotWeights) or classes.classes_of(mask) is None:
        return False
    return weights.heads * mask.layout.classes < weights.query.in_features


RULES = (
    Rule(
        "degrees",
        "the mask's degrees are the weights: nothing is read but values",
        lambda weights, mask: isinstance(weights, GCNWeights),
        forms.by_degrees,
    ),
    Rule(
        "short scores",
        "scores read the state through one vector a head instead of a projection",
        lambda weights, mask: isinstance(weights, AdditiveWeights),
        forms.short_scores,
    ),
    Rule(
        "star",
        "a member's two keys are one sigmoid, and one pass serves members and centres",
        lambda weights, mask: isinstance(weights, DotWeights) and star.star_of(mask) is not None,
        star.star_form,
        confined=True,
    ),
    Rule(
        "class scores",
        "no projection of real nodes: heads x classes is less than the width",
        _few_scores,
        classes.by_scores,
        confined=True,
    ),
    Rule(
        "class queries",
        "real nodes project queries alone: heads x classes is at least the width",
        lambda weights, mask: classes.classes_of(mask) is not None,
        classes.by_queries,
        confined=True,
    ),
    Rule(
        "complete",
        "everyone sees the same keys: no list of all pairs",
        lambda weights, mask: complete_of(mask) is not None,
        forms.plain_dot,
    ),
    Rule("plain", "no structure known for this mask", lambda weights, mask: True, forms.plain_dot),
)


def choose(weights: Weights, mask: Mask) -> Rule:
    """The rule that serves an expert."""
    return next(rule for rule in RULES if rule.fits(weights, mask))
