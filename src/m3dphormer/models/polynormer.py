"""PolyNormer: local, then global attention whose products make a polynomial (Deng et al., 2024).

A local layer, with H = ReLU(X W_h) and learned weights b for each channel:

    X' = dropout(ReLU(GAT(X) + X W));  X = (1 - b) LayerNorm(H * X') + b X'

The local states are summed. A global layer attends with sigmoid(K) as queries and as keys, linear
in the number of nodes:

    X = dropout(ReLU(Linear(LayerNorm(S (S^T V) / S (S^T 1)) * (X W_h + b)))),  S = sigmoid(X W_k)

Training has two phases: the local layers with a classifier of their own, then all with another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from m3dphormer.models.base import Model, Phase
from m3dphormer.models.convolutions import GATLayer, Graph
from m3dphormer.models.gnn import GNNConfig
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import at_least, between, setting


@dataclass(frozen=True)
class PolynormerConfig(GNNConfig):
    """Settings of PolyNormer; ``layers`` is the number of local ones.

    Args:
        hidden: Width of one head; the network is ``heads`` times as wide.
        global_layers: Number of global layers.
        local_epochs: Length of the local phase, at most half of all epochs.
        input_dropout: Dropout on the features of the graph.
        global_dropout: Dropout in the global layers.
        beta: Where b starts; below 0: b is the sigmoid of what is learned, which starts at 0.
    """

    layers: int = setting(5, at_least(1))
    heads: int = setting(2, at_least(1), search=(1, 2, 4, 8))
    global_layers: int = setting(1, at_least(1))
    local_epochs: int = setting(100, at_least(0))
    input_dropout: float = setting(0.15, between(0, 1))
    global_dropout: float = setting(0.5, between(0, 1))
    beta: float = setting(0.9, between(-1, 1), search=(-1.0, 0.9))

    @property
    def width(self) -> int:
        """Of the whole network."""
        return self.hidden * self.heads


class Beta(nn.Module):
    """The weight b of each channel."""

    def __init__(self, config: PolynormerConfig) -> None:
        super().__init__()
        self.free = config.beta >= 0
        self.weight = nn.Parameter(torch.full((config.width,), max(config.beta, 0.0)))

    def forward(self) -> Tensor:
        """[width]."""
        return self.weight if self.free else self.weight.sigmoid()


class LocalLayer(nn.Module):
    """Attention to the neighbours, times a projection of the node itself."""

    def __init__(self, config: PolynormerConfig) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.gat = GATLayer(width, config.hidden, heads, add_self_loops=False, bias=False)
        self.own, self.factor = nn.Linear(width, width), nn.Linear(width, width)
        self.norm, self.beta = nn.LayerNorm(width), Beta(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """The next state, [N, width]."""
        h = self.factor(x).relu()
        x = self.dropout((self.gat(x, graph.around) + self.own(x)).relu())
        b = self.beta()
        out: Tensor = (1 - b) * self.norm(h * x) + b * x
        return out


class GlobalLayer(nn.Module):
    """Attention to all nodes, times a projection of the node itself."""

    def __init__(self, config: PolynormerConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.key, self.value, self.factor = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.beta = nn.LayerNorm(width), Beta(config)

    def forward(self, x: Tensor) -> Tensor:
        """[N, width]."""
        s, v = (
            part.unflatten(1, (self.heads, -1)).transpose(0, 1)  # [H, N, hidden]
            for part in (self.key(x).sigmoid(), self.value(x))
        )
        seen = s @ (s.mT @ v) / (s @ s.sum(dim=1).unsqueeze(2))
        out: Tensor = self.norm(seen.transpose(0, 1).flatten(1)) * (self.factor(x) + self.beta())
        return out


@register_model("polynormer")
class Polynormer(Model):
    """The network; whether its global part is on is kept with the weights."""

    config_type = PolynormerConfig
    everywhere: Tensor

    def __init__(self, features: int, classes: int, config: PolynormerConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        width = config.width
        self.input, self.dropout = nn.Linear(features, width), nn.Dropout(config.dropout)
        self.local_layers = nn.ModuleList(LocalLayer(config) for _ in range(config.layers))
        self.local_classifier = nn.Linear(width, classes)
        self.norm = nn.LayerNorm(width)
        self.global_layers = nn.ModuleList(GlobalLayer(config) for _ in range(config.global_layers))
        self.output = nn.Sequential(  # one for all global layers
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(config.global_dropout)
        )
        self.global_classifier = nn.Linear(width, classes)
        self.register_buffer("everywhere", torch.tensor(False))

    def prepare(self, data: Data) -> Graph:
        """The neighbours of each node, itself among them."""
        return Graph.of(data, GATLayer, self.config.engine, loops=True)

    def phases(self, epochs: int) -> Sequence[Phase]:
        """Local, then global from the best local weights."""
        local = min(self.config.local_epochs, epochs // 2)
        return (Phase("local", local), Phase("global", epochs - local, from_best=True))

    def enter(self, phase: str) -> None:
        """Switch the global part, and with it the classifier."""
        self.everywhere.fill_(phase == "global")
        self.local_classifier.requires_grad_(phase == "local")
        for part in (self.norm, self.global_layers, self.output, self.global_classifier):
            part.requires_grad_(phase == "global")

    def forward(self, graph: Graph) -> Tensor:
        """Logits of the nodes, [N, C]."""
        given = graph.features
        if self.training:
            given = given.dropped(self.config.input_dropout)
        x, states = self.dropout(given.project(self.input)), []
        for layer in self.local_layers:
            x = layer(x, graph)
            states.append(x)
        x = sum(states[1:], states[0])
        if not self.everywhere:
            local: Tensor = self.local_classifier(x)
            return local
        x = self.norm(x)
        for layer in self.global_layers:
            x = self.output(layer(x))
        logits: Tensor = self.global_classifier(x)
        return logits
