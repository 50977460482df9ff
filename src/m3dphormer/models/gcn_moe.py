"""GCN-MoE: in every hidden layer a node takes the k graph convolutions that its gate chooses.

Wang et al., "Graph Mixture of Experts" (NeurIPS 2023): experts see one hop or two, the gate is the
noisy top-k of Shazeer et al. (2017), and an extra loss asks that the experts be used alike:

    h' = ReLU(mean_i or sum_i  gate_i(h) norm_i(A^hops_i h W_i)),  A = D^-1/2 (A + I) D^-1/2

The authors' network for nodes ends in a single convolution and has a bias in place of the norm;
their network for graphs ends in a linear layer and has a BatchNorm. Both are here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, softplus
from torch_geometric.data import Data

from m3dphormer.attention.structure import Features, features
from m3dphormer.errors import UserError
from m3dphormer.models.base import Model, ModelConfig
from m3dphormer.models.convolutions import GCNLayer, State, Weighted, times
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import at_least, between, one_of, setting

ConvGraph = tuple[Features, Weighted]


@dataclass(frozen=True)
class GCNMoEConfig(ModelConfig):
    """Settings of GCN-MoE.

    Args:
        layers: The last one without experts.
        experts: How many a layer has.
        one_hop: How many of them see one hop; the others see two.
        k: How many a node takes.
        coef: Weight of the loss of balance.
        reduce: "mean" over all experts, so that k < experts shrinks what comes out, or "sum".
        norm: "batch" in every expert, or "none": a bias in its place.
        head: What the last layer is, a convolution ("gcn") or "linear".
    """

    layers: int = setting(2, at_least(2), search=(2, 3, 4))
    experts: int = setting(4, at_least(2), search=(3, 4, 5))
    one_hop: int = setting(2, at_least(0))
    k: int = setting(2, at_least(1))
    coef: float = setting(1.0, between(0, 1000))
    reduce: str = setting("mean", one_of("mean", "sum"))
    norm: str = setting("batch", one_of("batch", "none"))
    head: str = setting("gcn", one_of("gcn", "linear"), search=("gcn", "linear"))

    def __post_init__(self) -> None:
        for name, value in (("k", self.k), ("one_hop", self.one_hop)):
            if value > self.experts:
                most = f"must be at most experts={self.experts}"
                raise UserError(f"The {name!r} parameter {most}. Got {value}.")


class NoisyTopK(nn.Module):
    """Gates [N, experts]: a softmax over the k largest of h W_g + noise * softplus(h W_n)."""

    LEAST_NOISE = 1e-2

    def __init__(self, width: int, experts: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.clean = nn.Linear(width, experts, bias=False)
        self.noise = nn.Linear(width, experts, bias=False)
        nn.init.zeros_(self.clean.weight)
        nn.init.zeros_(self.noise.weight)

    def forward(self, h: State) -> tuple[Tensor, Tensor]:
        """Gates, and each expert's load [experts]: how many nodes may be expected to take it."""
        clean = noisy = times(h, self.clean.weight)
        if self.training:
            spread = softplus(times(h, self.noise.weight)) + self.LEAST_NOISE
            noisy = clean + spread * torch.randn_like(clean)
        gates = top_k_softmax(noisy, self.k)
        if self.training and self.k < gates.shape[1]:
            return gates, chance_to_be_taken(clean, noisy, spread, self.k).sum(dim=0)
        return gates, (gates > 0).sum(dim=0).to(gates)


class Bias(nn.Module):
    """h + b."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, h: Tensor) -> Tensor:
        return h + self.bias


class Layer(nn.Module):
    """The experts side by side in one matrix, so that a norm by column is a norm by expert."""

    def __init__(self, inputs: int, config: GCNMoEConfig) -> None:
        super().__init__()
        self.config = config
        width = config.experts * config.hidden
        self.gate = NoisyTopK(inputs, config.experts, config.k)
        self.linear = nn.Linear(inputs, width, bias=False)
        self.norm = nn.BatchNorm1d(width) if config.norm == "batch" else Bias(width)

    def forward(self, h: State, around: Weighted) -> tuple[Tensor, Tensor, Tensor]:
        """The next state [N, hidden], the gates [N, experts] and the loss of balance."""
        gates, load = self.gate(h)
        near = self.config.one_hop * self.config.hidden
        one, two = times(h, self.linear.weight).tensor_split((near,), dim=1)
        answers = self.norm(around.sum(torch.cat([one, around.sum(two)], dim=1)))
        out = (gates.unsqueeze(2) * answers.view(*gates.shape, -1)).sum(dim=1)
        if self.config.reduce == "mean":
            out = out / self.config.experts
        return out.relu(), gates, unevenness(gates.sum(dim=0)) + unevenness(load)


@register_model("gcn-moe")
class GCNMoE(Model):
    """Layers of experts, and one that gives the logits."""

    config_type = GCNMoEConfig

    def __init__(self, features: int, classes: int, config: GCNMoEConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        widths = [features, *[config.hidden] * (config.layers - 2)]
        self.layers = nn.ModuleList(Layer(width, config) for width in widths)
        self.last = (GCNLayer if config.head == "gcn" else nn.Linear)(config.hidden, classes)
        far = config.experts - config.one_hop
        self.gate_names = tuple(
            f"{hops}hop_{i + 1}"
            for hops, count in ((1, config.one_hop), (2, far))
            for i in range(count)
        )

    def prepare(self, data: Data) -> ConvGraph:
        """Features and weighted neighbours."""
        return features(data.x, ()), GCNLayer.surroundings(data, loops=True)

    def run(self, graph: ConvGraph) -> tuple[Tensor, Tensor, Tensor]:
        """Logits [N, C], gates [layers - 1, N, experts] and the mean loss of balance."""
        h: State
        h, around = graph
        gates, balances = [], []
        for layer in self.layers:
            out, gate, balance = layer(h, around)
            h = dropout(out, self.config.dropout, self.training)
            gates.append(gate)
            balances.append(balance)
        logits = self.last(h, around) if self.config.head == "gcn" else self.last(h)
        return logits, torch.stack(gates), torch.stack(balances).mean()

    def forward(self, graph: ConvGraph) -> Tensor:
        """Logits of the nodes, [N, C]."""
        return self.run(graph)[0]

    def gates(self, graph: ConvGraph) -> Tensor:
        """How much of each expert a node takes, [layers - 1, N, experts]."""
        return self.run(graph)[1]

    def loss(self, graph: ConvGraph, data: Data) -> Tensor:
        """Cross-entropy over the training nodes, and the balance of the experts."""
        logits, _, balance = self.run(graph)
        on_train = cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        return on_train + self.config.coef * balance


def top_k_softmax(logits: Tensor, k: int) -> Tensor:
    """A softmax over the k largest of a row, 0 elsewhere."""
    values, places = logits.topk(k, dim=1)
    return torch.zeros_like(logits).scatter(1, places, values.softmax(dim=1))


def chance_to_be_taken(clean: Tensor, noisy: Tensor, spread: Tensor, k: int) -> Tensor:
    """For each expert, that another draw of its own noise alone puts it among the first k."""
    top = noisy.topk(k + 1, dim=1).values
    last_in, first_out = top[:, k - 1 : k], top[:, k:]
    to_beat = torch.where(noisy > first_out, first_out, last_in)
    chance: Tensor = torch.special.ndtr((clean - to_beat) / spread)
    return chance


def unevenness(x: Tensor) -> Tensor:
    """The squared coefficient of variation."""
    return x.var() / (x.mean().square() + 1e-10)
