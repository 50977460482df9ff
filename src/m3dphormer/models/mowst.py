"""Mowst: a weak expert (MLP) answers where it is confident, a strong one (GCN) elsewhere.

Zeng et al., "Mixture of Weak and Strong Experts on Graphs" (ICLR 2024). With logits z_w, z_s of the
experts and the gate's g, a function of how far the weak softmax is from uniform:

    joint (Mowst*)    loss = CE(g z_w + (1 - g) z_s)
    alternating       loss = g CE(z_w) + (1 - g) CE(z_s), the two sides trained in turns
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, logsigmoid
from torch_geometric.data import Data

from m3dphormer.attention.structure import Features, features
from m3dphormer.models.base import Model, ModelConfig, Phase
from m3dphormer.models.convolutions import GCNLayer, State, Weighted, times
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import at_least, flag, one_of, setting

ConvGraph = tuple[Features, Weighted]
TRAINED = {
    "pretrain": ("strong",),
    "joint": ("weak", "gate", "strong"),
    "weak": ("weak", "gate"),
    "strong": ("strong",),
}


@dataclass(frozen=True)
class MowstConfig(ModelConfig):
    """Settings of Mowst; both experts and the gate have ``layers`` layers.

    Args:
        variant: "joint" (Mowst*) or "alternating".
        pretrain: Epochs at first in which the strong expert is alone; at most half of all.
        turn: Epochs of a turn, where the sides alternate.
        gate_features: Whether the gate also reads the features.
    """

    variant: str = setting("joint", one_of("joint", "alternating"))
    pretrain: int = setting(50, at_least(0))
    turn: int = setting(20, at_least(1))
    gate_features: bool = setting(False, flag())


class Stack(nn.Module):
    """``layers`` times linear [-> step of propagation] -> BatchNorm -> ReLU -> dropout.

    The last layer is the linear map alone, with a bias in place of the norm.
    """

    def __init__(self, inputs: int, outputs: int, config: ModelConfig) -> None:
        super().__init__()
        widths = [inputs, *[config.hidden] * (config.layers - 1), outputs]
        self.linears = nn.ModuleList(
            nn.Linear(before, after, bias=False) for before, after in itertools.pairwise(widths)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in widths[1:-1])
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.dropout = config.dropout

    def forward(self, h: State, around: Weighted | None = None) -> Tensor:
        """[N, outputs]; with neighbours, a graph convolution."""
        for linear, norm in itertools.zip_longest(self.linears, self.norms):
            z = times(h, linear.weight)  # type: ignore[arg-type]
            if around is not None:
                z = around.sum(z)
            h = z if norm is None else dropout(norm(z).relu(), self.dropout, self.training)
        return z + self.bias


@register_model("mowst")
class Mowst(Model):
    """The two experts and the gate."""

    config_type = MowstConfig
    gate_names = ("weak", "strong")
    alone: Tensor

    def __init__(self, features: int, classes: int, config: MowstConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        self.weak = Stack(features, classes, config)
        self.strong = Stack(features, classes, config)
        self.gate = Stack(2 + features * config.gate_features, 1, config)
        self.register_buffer("alone", torch.tensor(False))  # the strong expert answers alone

    def prepare(self, data: Data) -> ConvGraph:
        """Features and weighted neighbours."""
        return features(data.x, ()), GCNLayer.surroundings(data, loops=True)

    def answers(self, graph: ConvGraph) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the weak and the strong expert, [N, C] each, and of the gate, [N, 1]."""
        given, around = graph
        weak = self.weak(given)
        seen = [dispersion(weak.detach())]
        if self.config.gate_features:
            seen.append(given.x)
        return weak, self.strong(given, around), self.gate(torch.cat(seen, dim=1))

    def forward(self, graph: ConvGraph) -> Tensor:
        """The mixture of logits; of probabilities where the sides alternate, as logarithms."""
        if self.alone:
            logits: Tensor = self.strong(*graph)
            return logits
        weak, strong, gate = self.answers(graph)
        if self.config.variant == "joint":
            return gate.sigmoid() * weak + (1 - gate.sigmoid()) * strong
        return torch.logaddexp(
            logsigmoid(gate) + weak.log_softmax(dim=1),
            logsigmoid(-gate) + strong.log_softmax(dim=1),
        )

    def gates(self, graph: ConvGraph) -> Tensor:
        """How much of each expert a node takes, [1, N, 2]."""
        share = self.answers(graph)[2].sigmoid() * ~self.alone
        return torch.cat([share, 1 - share], dim=1).unsqueeze(0)

    def loss(self, graph: ConvGraph, data: Data) -> Tensor:
        """What the variant says; a part that is not trained is as in evaluation."""
        for part in (self.weak, self.strong, self.gate):
            part.train(self.training and part.bias.requires_grad)
        if self.alone or self.config.variant == "joint":
            return super().loss(graph, data)
        y, train = data.y[data.train_mask], data.train_mask
        weak, strong, gate = self.answers(graph)
        on_weak, on_strong = (cross_entropy(z[train], y, reduction="none") for z in (weak, strong))
        share = gate[train].squeeze(1).sigmoid()
        return (share * on_weak + (1 - share) * on_strong).mean()

    def phases(self, epochs: int) -> Sequence[Phase]:
        """The strong expert alone; then all together, or turns that begin with the weak side."""
        first = min(self.config.pretrain, epochs // 2)
        phases, left = [Phase("pretrain", first)] if first else [], epochs - first
        if self.config.variant == "joint":
            return [*phases, Phase("joint", left, from_best=True)]
        for name in itertools.islice(
            itertools.cycle(("weak", "strong")), math.ceil(left / self.config.turn)
        ):
            phases.append(Phase(name, self.config.turn, from_best=len(phases) == bool(first)))
        return phases

    def enter(self, phase: str) -> None:
        """Train the parts that have their turn."""
        self.alone.fill_(phase == "pretrain")
        for name in ("weak", "gate", "strong"):
            self.get_submodule(name).requires_grad_(name in TRAINED[phase])


def dispersion(logits: Tensor) -> Tensor:
    """Variance and negative entropy of the softmax, each 0 if uniform and 1 if certain, [N, 2]."""
    p, classes = logits.softmax(dim=1), logits.shape[1]
    variance = p.var(dim=1, correction=0) / ((1 - 1 / classes) / classes)
    certainty = 1 + torch.xlogy(p, p).sum(dim=1) / math.log(classes)
    return torch.stack([variance, certainty], dim=1)
