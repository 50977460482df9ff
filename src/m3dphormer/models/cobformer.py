"""CoBFormer: attention inside and between clusters, taught together with a GCN (Xing et al., 2024).

A bi-level layer lets each node attend to its cluster (the mask c3), then the clusters' means to
each other (c1), and gives every node what its cluster learned. This branch and a GCN are trained
at the same time; where there is no training label, each learns from the other:

    alpha (CE(z_1) + CE(z_2)) + (1 - alpha) (CE(t z_1, softmax(t z_2)) + CE(t z_2, softmax(t z_1)))

with t = tau. The predictions are those of the attention branch, or of the GCN: the authors report
both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from m3dphormer import masks
from m3dphormer.attention import attend
from m3dphormer.attention.structure.inputs import group_means
from m3dphormer.masks import Mask
from m3dphormer.models import convolutions
from m3dphormer.models.base import Model, check_heads
from m3dphormer.models.convolutions import GCNLayer
from m3dphormer.models.gcn_branch import NORMS, GCNBranch, ResidualBranch
from m3dphormer.models.gnn import GNNConfig
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import (
    at_least,
    between,
    either,
    flag,
    one_of,
    setting,
    word,
)


@dataclass(frozen=True)
class CoBFormerConfig(GNNConfig):
    """Settings of CoBFormer; ``layers`` is the number of bi-level ones.

    Args:
        clusters: Number of METIS clusters, or "auto" for about N/32.
        alpha: Weight of the training labels; what the branches teach each other has the rest.
        tau: Factor of the logits when they teach.
        gcn_layers: Layers of the GCN.
        norm: "batch" normalisation between the layers of the GCN, or "none".
        gcn_residual: Whether the GCN has a linear stem, which is added to each of its layers.
        answer: The branch that predicts, "attention" or "gcn".
        attention_dropout: Dropout on the attention weights and in the feed-forward networks.
        gcn_weight_decay: Of the GCN; ``weight_decay`` is that of the attention branch.
    """

    layers: int = setting(1, at_least(1))
    heads: int = setting(4, at_least(1), search=(1, 2, 4, 8))
    clusters: int | str = setting("auto", either(at_least(1), word("auto")))
    alpha: float = setting(0.7, between(0, 1), search=(0.9, 0.8, 0.7))
    tau: float = setting(0.3, between(0, 10), search=(0.9, 0.7, 0.5, 0.3))
    gcn_layers: int = setting(2, at_least(1))
    norm: str = setting("none", one_of(*NORMS), search=tuple(NORMS))
    gcn_residual: bool = setting(False, flag(), search=(False, True))
    answer: str = setting("attention", one_of("attention", "gcn"))
    attention_dropout: float = setting(0.1, between(0, 1))
    gcn_weight_decay: float = setting(0.001, between(0, 10))

    def __post_init__(self) -> None:
        check_heads(self.hidden, self.heads)


@dataclass(frozen=True)
class Graph:
    """What the two branches see."""

    near: convolutions.Graph
    cluster: Tensor  # [N]
    inside: Mask  # c3
    between: Mask  # all clusters to all


class Attention(nn.Module):
    """Multi-head attention over a mask with a residual, and a feed-forward network with another."""

    def __init__(self, config: CoBFormerConfig) -> None:
        super().__init__()
        self.heads, self.p = config.heads, config.attention_dropout
        width = config.hidden
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value, self.output = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.wide = nn.Sequential(
            nn.LayerNorm(width),
            nn.Dropout(self.p),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
        )

    def forward(self, h: Tensor, mask: Mask) -> Tensor:
        """[rows of the mask, hidden]."""
        z = self.norm(h)
        parts = (self.query, self.key, self.value)
        q, k, v = (part(z).unflatten(1, (self.heads, -1)) for part in parts)  # [rows, H, d_h]
        seen = attend(q, k, v, mask, dropout=self.p if self.training else 0.0)
        h = self.output(seen.flatten(1)) + z
        out: Tensor = self.wide(h) + h
        return out


class BiLevel(nn.Module):
    """Attention inside the clusters, between them, and what a node makes of both."""

    def __init__(self, config: CoBFormerConfig) -> None:
        super().__init__()
        self.inside, self.between = Attention(config), Attention(config)
        self.fuse = nn.Linear(2 * config.hidden, config.hidden)

    def forward(self, h: Tensor, graph: Graph) -> Tensor:
        """The next state, [N, hidden]."""
        h = self.inside(h, graph.inside)
        means = group_means(h, graph.cluster, graph.between.layout.total)
        clusters = self.between(means, graph.between)
        both = torch.cat([h, clusters[graph.cluster]], dim=1)
        out: Tensor = self.fuse(both).relu() + h
        return out


@register_model("cobformer")
class CoBFormer(Model):
    """The network: the attention branch and the GCN."""

    config_type = CoBFormerConfig

    def __init__(self, features: int, classes: int, config: CoBFormerConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        width, layers, how = config.hidden, config.gcn_layers, (config.norm, config.dropout)
        self.gcn: nn.Module = (
            nn.Sequential(ResidualBranch(features, width, layers, *how), nn.Linear(width, classes))
            if config.gcn_residual
            else GCNBranch([features, *[width] * (layers - 1), classes], *how)
        )
        self.input = nn.Linear(features, config.hidden)
        self.layers = nn.ModuleList(BiLevel(config) for _ in range(config.layers))
        self.classifier = nn.Sequential(
            nn.Dropout(config.dropout), nn.Linear(config.hidden, classes)
        )

    def partition(self, data: Data) -> Tensor:
        """The cluster of each node, [N]; one that comes with the graph is taken as it is."""
        return masks.assign(data, data.cluster if "cluster" in data else self.config.clusters)

    def prepare(self, data: Data) -> Graph:
        """The partition and its masks; neighbours and features."""
        cluster = self.partition(data)
        everyone = Data(num_nodes=int(cluster.max()) + 1)
        return Graph(
            near=convolutions.Graph.of(data, GCNLayer, self.config.engine, loops=False),
            cluster=cluster.to(data.x.device),
            inside=masks.c3(data, cluster),
            between=masks.g1(everyone),
        )

    def forward(self, graph: Graph) -> Tensor:
        """Logits of the branch that predicts, [N, C]."""
        logits: Tensor = (
            self.gcn(graph.near) if self.config.answer == "gcn" else self.attentive(graph)
        )
        return logits

    def attentive(self, graph: Graph) -> Tensor:
        """Logits of the attention branch, [N, C]."""
        h = graph.near.features.project(self.input).relu()
        for layer in self.layers:
            h = layer(h, graph)
        logits: Tensor = self.classifier(h)
        return logits

    def loss(self, graph: Graph, data: Data) -> Tensor:
        """Training labels for both branches, and each other's opinion on all other nodes."""
        branches = self.gcn(graph.near), self.attentive(graph)
        train, alpha = data.train_mask, self.config.alpha
        taught = sum(cross_entropy(z[train], data.y[train]) for z in branches)
        one, other = (self.config.tau * z[~train] for z in branches)
        together = cross_entropy(one, other.softmax(1)) + cross_entropy(other, one.softmax(1))
        return alpha * taught + (1 - alpha) * together

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """The GCN has a weight decay of its own."""
        attention = (self.input, self.layers, self.classifier)
        return [
            {"params": [weight for part in attention for weight in part.parameters()]},
            {"params": list(self.gcn.parameters()), "weight_decay": self.config.gcn_weight_decay},
        ]
