"""All experts of a layer from one reading of its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import linear

from m3dphormer.attention.attend import DEFAULT_SCHEME
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.structure import passes
from m3dphormer.attention.structure.choose import choose
from m3dphormer.attention.structure.forms import Weights
from m3dphormer.attention.structure.maps import Map
from m3dphormer.attention.structure.mix import Piece
from m3dphormer.attention.structure.read import Norm, enter, read
from m3dphormer.masks import Layout, Mask


@dataclass(frozen=True)
class Expert:
    """Weights, mask and attention dropout of one expert."""

    weights: Weights
    mask: Mask
    dropout: Dropout | None


def structured(scheme: str, h: Tensor) -> bool:
    """Whether the layer is computed by its structure; else each expert goes on its own."""
    return scheme == DEFAULT_SCHEME and passes.serve(h)


def attend_all(
    h: Tensor,
    layout: Layout,
    experts: Sequence[Expert],
    *,
    norm: Norm | None,
    gate: nn.Linear | None,
    readers: Sequence[Map],
) -> tuple[Tensor | None, list[Piece], list[Tensor]]:
    """The gates' logits, the experts' answers and what each reader makes of a state [T, d].

    Args:
        norm: Between the state and what gates and experts read; None: they read it as it is.
        gate: None: there are no logits.
        readers: Of the state itself, such as the residual projection.
    """
    z, few, others = enter(h, norm, readers, layout.rows("classes"))
    forms = [
        choose(expert.weights, expert.mask).build(expert.weights, expert.mask, few, expert.dropout)
        for expert in experts
    ]
    gates = [] if gate is None else [Map.of(gate, len(h))]
    reads = [*gates, *(item for form in forms for item in form.reads)]
    pools = [pool for form in forms for pool in form.pools]
    given = read(z, reads, pools)
    logits = None if gate is None else given[0]
    answers, pooled = given[len(gates) : len(reads)], given[len(reads) :]
    pieces = []
    for i, form in enumerate(forms):
        mine = [answers.pop(0) for _ in form.reads]
        mine += [pooled.pop(0) for _ in range(2 * len(form.pools))]
        pieces += [Piece(i, start, rows) for start, rows in form.finish(mine)]
    return logits, pieces, others


def project(h: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear layer's weights [outputs, d] and [outputs] on a state [T, d]."""
    if not passes.serve(h):
        return linear(h, weight, bias)
    return read(h, [Map(weight, bias, len(h))], [])[0]
