"""All experts of a layer from one reading of its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn
from torch.nn.functional import linear

from m3dphormer.attention.attend import DEFAULT_SCHEME
from m3dphormer.attention.dropout import Dropout, among
from m3dphormer.attention.structure import passes
from m3dphormer.attention.structure.asked import Asked
from m3dphormer.attention.structure.choose import choose
from m3dphormer.attention.structure.forms import GCNWeights, Weights
from m3dphormer.attention.structure.maps import Map
from m3dphormer.attention.structure.mix import Piece
from m3dphormer.attention.structure.read import Norm, enter, read
from m3dphormer.attention.structure.take import fork, take
from m3dphormer.masks import Layout, Mask

Linear = tuple[Tensor, Tensor | None]  # weight [outputs, d] and bias [outputs]


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
    readers: Sequence[Linear],
    asked: Asked | None = None,
) -> tuple[Tensor | None, list[Piece], list[Tensor]]:
    """The gates' logits, the experts' answers and what each reader makes of a state [T, d].

    Args:
        norm: Between the state and what gates and experts read; None: they read it as it is.
        gate: None: there are no logits.
        readers: Of the state itself, such as the residual projection.
        asked: The rows to which all of this is confined; None: all rows.
    """
    near, pieces = dict(enumerate(experts)), []
    if asked is not None:
        near, far = _divided(near, asked)
        whole, h = fork(h, asked.rows) if far else (h, take(h, asked.rows))
        if far:
            z, few, _ = enter(whole, norm, [], layout.rows("classes"))
            _, answers = _answers(z, few, far, None)
            pieces = [_taken(piece, asked) for piece in answers]
        layout = asked.layout
    maps = [Map(weight, bias, len(h)) for weight, bias in readers]
    z, few, others = enter(h, norm, maps, layout.rows("classes"))
    logits, answers = _answers(z, few, near, gate)
    return logits, [*pieces, *answers], others


def _answers(
    z: Tensor, few: Tensor, experts: Mapping[int, Expert], gate: nn.Linear | None
) -> tuple[Tensor | None, list[Piece]]:
    """The gates' logits and the answers of some experts, by their numbers, on a normed state."""
    forms = {
        i: choose(expert.weights, expert.mask).build(
            expert.weights, expert.mask, few, expert.dropout
        )
        for i, expert in experts.items()
    }
    gates = [] if gate is None else [Map.of(gate, len(z))]
    reads = [*gates, *(item for form in forms.values() for item in form.reads)]
    pools = [pool for form in forms.values() for pool in form.pools]
    given = read(z, reads, pools)
    logits = None if gate is None else given[0]
    answers, pooled = given[len(gates) : len(reads)], given[len(reads) :]
    pieces = []
    for i, form in forms.items():
        mine = [answers.pop(0) for _ in form.reads]
        mine += [pooled.pop(0) for _ in range(2 * len(form.pools))]
        pieces += [Piece(i, start, rows) for start, rows in form.finish(mine)]
    return logits, pieces


def _divided(
    experts: Mapping[int, Expert], asked: Asked
) -> tuple[dict[int, Expert], dict[int, Expert]]:
    """Experts that need the asked rows alone, and those that need all."""
    near, far = {}, {}
    for i, expert in experts.items():
        if choose(expert.weights, expert.mask).confined:
            mask = asked.mask(expert.mask, confined=True)
            near[i] = replace(expert, mask=mask, dropout=among(expert.dropout, asked.rows))
        elif isinstance(expert.weights, GCNWeights):  # they are of the whole mask
            far[i] = expert
        else:
            far[i] = replace(expert, mask=asked.mask(expert.mask, confined=False))
    return near, far


def _taken(piece: Piece, asked: Asked) -> Piece:
    """What of an answer was asked for."""
    assert isinstance(piece.rows, Tensor)  # a blend is of class nodes, which need no other rows
    mine = asked.inside(piece.start, piece.start + len(piece.rows))
    return Piece(piece.expert, mine.start, take(piece.rows, asked.rows[mine] - piece.start))


def project(h: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear layer's weights [outputs, d] and [outputs] on a state [T, d]."""
    if not passes.serve(h):
        return linear(h, weight, bias)
    return read(h, [Map(weight, bias, len(h))], [])[0]
