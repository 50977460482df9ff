"""FAGCN: a signed weight for each edge, so that neighbours may also differ (Bo et al., 2021).

A layer is eps h^0_u + sum_v tanh(a . h_u + b . h_v) / sqrt(d_u d_v) h_v over the neighbours v of
u, without u itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import dropout
from torch_geometric.data import Data
from torch_geometric.nn import FAConv

from m3dphormer.attention.structure import features
from m3dphormer.models.base import Model
from m3dphormer.models.convolutions import Graph, Weighted
from m3dphormer.models.gnn import GNNConfig
from m3dphormer.models.propagate import Neighbours, edges
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import between, setting

GAIN = 1.414  # of the authors' xavier_normal


@dataclass(frozen=True)
class FAGCNConfig(GNNConfig):
    """Settings of FAGCN.

    Args:
        eps: How much of the first state each layer adds.
        dropout: On features, on the first state and on the edges' weights.
    """

    eps: float = setting(0.3, between(0, 1), search=(0.3, 0.5, 0.7))


class FALayer(nn.Module):
    """Frequency-adaptive convolution: PyG's holds the weights, our engine computes it."""

    def __init__(self, width: int, eps: float, drop: float) -> None:
        super().__init__()
        self.public = FAConv(width, eps, drop, add_self_loops=False)
        for half in (self.public.att_l, self.public.att_r):  # of a 2d x 1 matrix
            nn.init.normal_(half.weight, std=GAIN * math.sqrt(2 / (2 * width + 1)))

    def forward(self, h: Tensor, first: Tensor, around: Tensor | Weighted) -> Tensor:
        """The next state, [N, hidden]."""
        conv = self.public
        if isinstance(around, Tensor):
            out: Tensor = conv(h, first, around)
            return out
        near = around.near
        own, beside = conv.att_r(h).squeeze(1), conv.att_l(h).squeeze(1)  # [N]
        sign = (own[near.rows] + beside[near.columns]).tanh()  # [E]
        sign = dropout(sign, conv.dropout, self.training)
        summed: Tensor = near.sum(sign * around.values, h) + conv.eps * first
        return summed


@register_model("fagcn")
class FAGCN(Model):
    """A first state, L frequency-adaptive convolutions, a linear classifier."""

    config_type = FAGCNConfig

    def __init__(self, features: int, classes: int, config: FAGCNConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        self.input = nn.Linear(features, config.hidden)
        layer = (config.hidden, config.eps, config.dropout)
        self.layers = nn.ModuleList(FALayer(*layer) for _ in range(config.layers))
        self.classifier = nn.Linear(config.hidden, classes)
        for linear in (self.input, self.classifier):
            nn.init.xavier_normal_(linear.weight, gain=GAIN)

    def prepare(self, data: Data) -> Graph:
        """Neighbours with 1 / sqrt(d_u d_v), and features."""
        x = features(data.x, [])
        if self.config.engine == "pyg":
            return Graph(x, edges(data, loops=False))
        near = Neighbours.of(data, loops=False)
        return Graph(x, Weighted(near, near.symmetric(data.x.dtype)))

    def forward(self, graph: Graph) -> Tensor:
        """Logits, [N, C]."""
        drop = self.config.dropout
        x = graph.features.dropped(drop) if self.training else graph.features
        h = first = dropout(x.project(self.input).relu(), drop, self.training)
        for layer in self.layers:
            h = layer(h, first, graph.around)
        logits: Tensor = self.classifier(h)
        return logits
