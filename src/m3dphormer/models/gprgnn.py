"""GPRGNN: a perceptron's logits, spread by a learned PageRank (Chien et al., 2021).

The answer is sum_k gamma_k S^k Z with S = D^-1/2 (A + I) D^-1/2; gamma starts as the PageRank of
teleport probability alpha and is learned without weight decay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch_geometric.data import Data

from m3dphormer.models.base import Model, ModelConfig
from m3dphormer.models.convolutions import GCNLayer, Graph, Weighted
from m3dphormer.models.mlp import Perceptron
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import at_least, between, setting


@dataclass(frozen=True)
class GPRGNNConfig(ModelConfig):
    """Settings of GPRGNN.

    Args:
        layers: Of the perceptron.
        alpha: Where gamma starts: gamma_k = alpha (1 - alpha)^k, and the rest at the last hop.
        hops: How far the logits are spread, K.
        hop_dropout: On the logits before they are spread; ``dropout`` acts in the perceptron.
    """

    layers: int = setting(2, at_least(1))
    alpha: float = setting(0.1, between(0, 1), search=(0.1, 0.3, 0.5))
    hops: int = setting(10, at_least(0))
    hop_dropout: float = setting(0.5, between(0, 1))


@register_model("gprgnn")
class GPRGNN(Model):
    """Generalised PageRank on top of a perceptron."""

    config_type = GPRGNNConfig

    def __init__(self, features: int, classes: int, config: GPRGNNConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        self.network = Perceptron(features, classes, config)
        gamma = config.alpha * (1 - config.alpha) ** torch.arange(config.hops + 1.0)
        gamma[-1] = (1 - config.alpha) ** config.hops
        self.gamma = nn.Parameter(gamma)

    def prepare(self, data: Data) -> Graph:
        """S, and the features."""
        return Graph.of(data, GCNLayer, "ours", loops=True)

    def forward(self, graph: Graph) -> Tensor:
        """Logits, [N, C]."""
        assert isinstance(graph.around, Weighted)
        x = graph.features.dropped(self.config.dropout) if self.training else graph.features
        z = dropout(self.network(x), self.config.hop_dropout, self.training)
        logits = self.gamma[0] * z
        for share in self.gamma[1:]:
            z = graph.around.sum(z)
            logits = logits + share * z
        return logits

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Gamma is not decayed."""
        decayed = list(self.network.parameters())
        return [{"params": decayed}, {"params": [self.gamma], "weight_decay": 0.0}]
