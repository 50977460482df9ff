"""What a training step of M3Dphormer holds and does, layer by layer, for the forecast.

A state is [T, hidden]. What autograd keeps is counted from the code of
``models/m3dphormer_layer.py`` and ``attention/structure``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.attention import DEFAULT_SCHEME, native, planner, structure
from m3dphormer.attention.planner import Shape, Work
from m3dphormer.attention.structure import inputs
from m3dphormer.attention.structure.sparse import block_rows
from m3dphormer.masks import Layout, Mask

NUMBER, INDEX = 4, 8  # bytes
LISTED = 4  # bytes of a non-zero in each list of ``structure/sparse.py``
PICKED = 3  # products of a dense map that take as long as one of a sparse map
STEP = 8  # flops a multiplication: two forward, two to evaluate, four backward
STORED = 5  # copies of the weights: themselves, gradients, two moments of Adam, the best epoch's


@dataclass(frozen=True)
class Expert:
    """One expert as the forecast sees it."""

    weights: structure.Weights
    mask: Mask
    shape: Shape
    projections: int


@dataclass(frozen=True)
class Network:
    """The sizes of a network on a graph."""

    layout: Layout
    width: int
    layers: int
    classes: int
    parameters: int
    dropped: bool  # features
    skip: bool  # the input is dropout(z + ReLU(z))
    ffn: bool
    inside: bool  # the residual, so the end of a layer is in plain torch
    twins: int  # rows of ``leave_one_out``
    asked: structure.Asked | None  # the rows of the last layer in a training step; None: all
    experts: Sequence[Expert]

    @property
    def rows(self) -> int:
        """T, and the twins."""
        return self.layout.total + self.twins

    @property
    def state(self) -> int:
        """Bytes of [T, hidden], twins included."""
        return NUMBER * self.rows * self.width


def works(network: Network, data: Data, scheme: str) -> list[Work]:
    """All parts of a training step and an evaluation, in the order of the forward pass."""
    like = torch.empty(network.layout.total, network.width, device="meta")
    by_structure = scheme == DEFAULT_SCHEME and native.ready()
    parts = [_data(data), _weights(network), _input(network, data, by_structure)]
    for layer in range(network.layers):
        if not by_structure or network.twins:
            parts += _plain_layer(network, scheme, first=layer == 0)
        else:
            again = layer < network.layers - structure.kept_layers(like)
            inside = _structured_layer(network, first=layer == 0)
            if layer == network.layers - 1 and network.asked is not None:
                inside = _asked_layer(network, network.asked, inside)
            parts += [planner.recomputed_work(inside, network.state)] if again else inside
    return [*parts, _end(network), _remembered(data)]


def _data(data: Data) -> Work:
    """The graph as it was loaded and as it is trained on; while it is read there is one more."""
    tensors = [value for _, value in data if isinstance(value, Tensor)]
    once = sum(value.numel() * value.element_size() for value in tensors)
    return Work(index=2 * once).holds(once, forward=once)


def _weights(network: Network) -> Work:
    stored = NUMBER * network.parameters
    return Work(index=STORED * stored, calls=60).writes(stored, STORED)


def _input(network: Network, data: Data, by_structure: bool) -> Work:
    """X W + b and what follows it; X is sparse where that is faster."""
    nodes, features = data.x.shape
    rows, virtual = network.layout.total, network.layout.total - nodes
    state = network.state
    if not by_structure:
        kept = 2 * state if network.skip else 0
        work = Work(
            index=NUMBER * rows * features,
            flops=0.75 * STEP * rows * features * network.width,
            calls=40,
        ).writes(state, 12)
        return work.holds(state, kept=kept, forward=kept + 2 * state, backward=2 * state)
    nnz = int(data.x.count_nonzero())
    density = nnz / max(data.x.numel(), 1)
    packed, sparse = density < inputs.SPARSE_FORWARD, density < inputs.SPARSE_BACKWARD
    blocks = math.ceil(nodes / block_rows(density))
    lists = (2 + 2 * packed) * LISTED * nnz + INDEX * (nodes + blocks * features)
    built = virtual * features < inputs.MEANS_FROM * nodes
    means = NUMBER * virtual * features if built else 2 * (INDEX + NUMBER) * 2 * nodes
    dense, picked = 2 * (not packed) + (not sparse), 2 * packed + sparse
    products = dense * nodes * features + PICKED * picked * nnz
    work = Work(
        index=sparse * lists + means,
        projected=2 * products * network.width,
        calls=40,
    ).writes(state, 8)
    return work.holds(state, forward=2 * state, backward=2 * state)


def _plain_layer(network: Network, scheme: str, *, first: bool) -> list[Work]:
    """Norm, gates and residual; each expert; what twins add; the gated sum; its FFN."""
    state, count = network.state, len(network.experts)
    products = STEP * network.rows * network.width * (network.width + count)
    start = Work(flops=products, calls=40).writes(state, 26)
    parts = [start.holds(state, kept=3 * state, forward=5 * state, backward=4 * state)]
    for expert in network.experts:
        parts.append(_plain_expert(network, expert, scheme))
        attention = planner.scheme_works(scheme, expert.mask, expert.shape)
        parts += attention if first else [planner.without_index(work) for work in attention]
    kept = (1 + network.dropped) * state
    end = Work(calls=30).writes(state, 16 + 6 * count)
    end = end.holds(state, kept=kept, forward=kept + 3 * state, backward=(count + 2) * state)
    return [*parts, *_twins(network), end, *_ffn(network)]


def _plain_expert(network: Network, expert: Expert, scheme: str) -> Work:
    """Projections and the answer; what is freed of these lies between what the attention keeps."""
    state, additive = network.state, expert.shape.additive
    copies = {"dense": 1, "reference": 6}.get(scheme, 0)  # scaled queries; all three in float64
    held = (expert.projections + 1 + copies) * state
    selected = scheme in ("sparse", "dual")  # of each pair, in tensors of the attention's own
    kept = (1 + additive) * state if selected else held - (1 + additive) * state
    work = Work(flops=STEP * expert.projections * network.rows * network.width**2, calls=50)
    work = work.writes(state, 5 * expert.projections + 4).leaves(state, held - kept)
    return work.holds(state, kept=kept, forward=held, backward=2 * state)


def _twins(network: Network) -> list[Work]:
    """What training nodes read and twins are told, and the answers with both."""
    if not network.twins:
        return []
    heads = max(expert.shape.heads for expert in network.experts)
    scored = NUMBER * network.twins * heads * network.layout.classes  # [n, H, C]
    twins = NUMBER * network.twins * network.width  # [n, hidden]
    work = (
        Work(calls=120)
        .holds(scored, kept=4 * scored, forward=6 * scored, backward=2 * scored)
        .holds(twins, kept=8 * twins, forward=8 * twins, backward=4 * twins)
        .holds(network.state, kept=3 * network.state, forward=3 * network.state)  # q, k and a sum
    )
    return [work.writes(scored, 12).writes(twins, 24).writes(network.state, 4)]


def _ffn(network: Network) -> list[Work]:
    """The norm, its two products with ReLU between them, dropout and the sum."""
    if not network.ffn:
        return []
    state = network.state
    kept = (3 + network.dropped) * state
    work = (
        Work(flops=8 * STEP * network.rows * network.width**2, calls=60)
        .holds(4 * state, kept=4 * state, forward=8 * state, backward=8 * state)  # after ReLU
        .holds(state, kept=kept, forward=kept, backward=state)
    )
    return [work.writes(4 * state, 6).writes(state, 18)]


def _structured_layer(network: Network, *, first: bool) -> list[Work]:
    """The same by the forms of ``attention/structure``."""
    state, count = network.state, len(network.experts)
    products = STEP * network.layout.total * network.width * (network.width + count)
    start = Work(projected=products, calls=50).writes(state, 12)
    parts = [start.holds(state, kept=2 * state, forward=3 * state, backward=3 * state)]
    for expert in network.experts:
        work = planner.structured_work(expert.weights, expert.mask, expert.shape)
        parts.append(work if first else planner.without_index(work))
    kept = network.inside * (1 + network.dropped) * state
    end = Work(calls=50).writes(state, (10 if network.inside else 3) + count)
    end = end.holds(state, kept=kept, forward=kept + 2 * state, backward=(count + 2) * state)
    return [*parts, end, *_ffn(network)]


def _asked_layer(network: Network, asked: structure.Asked, whole: Sequence[Work]) -> list[Work]:
    """The last layer: in training it has fewer rows, but for experts that look beyond these."""
    experts = []
    for expert in network.experts:
        confined = structure.choose(expert.weights, expert.mask).confined
        experts.append(replace(expert, mask=asked.mask(expert.mask, confined=confined)))
    fewer = replace(network, layout=asked.layout, experts=experts)
    parts = zip(whole, _structured_layer(fewer, first=True), strict=True)
    taken = Work(calls=60).writes(network.state, 4).writes(fewer.state, 4)
    taken = taken.holds(network.state, kept=network.state, forward=network.state)  # normed
    taken = taken.holds(fewer.state, kept=2 * fewer.state, forward=2 * fewer.state)
    return [taken, *(planner.trained_in_part(work, part) for work, part in parts)]


def _end(network: Network) -> Work:
    """Readout, classifier, loss, probabilities."""
    logits = NUMBER * network.layout.total * network.classes
    state = network.state
    work = Work(
        flops=STEP * network.layout.total * network.width * network.classes, calls=170
    ).writes(logits, 12)
    return work.holds(
        state, kept=state + logits, forward=state + 4 * logits, backward=state + 3 * logits
    )


def _remembered(data: Data) -> Work:
    """After the last epoch the centroids of the clusters, from a copy of the features."""
    copy = NUMBER * data.x.numel()
    return Work().holds(copy, forward=copy)
