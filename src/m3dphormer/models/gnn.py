"""GCN, GraphSAGE and GAT as PyG stacks them: convolution, ReLU, dropout; the last gives logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch_geometric.data import Data

from m3dphormer.attention.structure import dropout
from m3dphormer.models.base import Model, ModelConfig, check_heads
from m3dphormer.models.convolutions import (
    ENGINES,
    Convolution,
    GATLayer,
    GCNLayer,
    Graph,
    SAGELayer,
    State,
)
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import at_least, one_of, setting


@dataclass(frozen=True)
class GNNConfig(ModelConfig):
    """Settings of a stack of convolutions.

    Args:
        engine: Who computes, "ours" or "pyg"; does not change the result.
    """

    engine: str = setting(ENGINES[0], one_of(*ENGINES))


@dataclass(frozen=True)
class GATConfig(GNNConfig):
    """Of a stack of attentions.

    Args:
        heads: Of each layer; they share ``hidden``, and the last layer takes their mean.
    """

    heads: int = setting(8, at_least(1), search=(1, 2, 4, 8))

    def __post_init__(self) -> None:
        check_heads(self.hidden, self.heads)


class GNN(Model):
    """A stack of convolutions of one kind."""

    config_type = GNNConfig
    kind: ClassVar[type[Convolution]]

    def __init__(self, features: int, classes: int, config: GNNConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        widths = [features, *[config.hidden] * (config.layers - 1)]
        self.layers = nn.ModuleList(self.layer(width, config.hidden) for width in widths[:-1])
        self.layers.append(self.last_layer(widths[-1], classes))

    def layer(self, width: int, out: int) -> Convolution:
        """Any but the last."""
        return self.kind(width, out)

    def last_layer(self, width: int, classes: int) -> Convolution:
        """The one that gives the logits."""
        return self.kind(width, classes)

    def prepare(self, data: Data) -> Graph:
        """Neighbours and features."""
        return Graph.of(data, self.kind, self.config.engine, loops=False)

    def forward(self, graph: Graph) -> Tensor:
        """Logits, [N, C]."""
        *hidden, last = self.layers
        h: State = graph.features
        for layer in hidden:
            h = dropout(layer(h, graph.around).relu(), self.config.dropout, self.training)
        logits: Tensor = last(h, graph.around)
        return logits


@register_model("gcn")
class GCN(GNN):
    """Graph convolutional network (Kipf and Welling, 2017)."""

    kind = GCNLayer


@register_model("sage")
class SAGE(GNN):
    """GraphSAGE with the mean of all neighbours (Hamilton et al., 2017)."""

    kind = SAGELayer


@register_model("gat")
class GAT(GNN):
    """Graph attention network (Velickovic et al., 2018); ``dropout`` also acts on attention."""

    config_type = GATConfig
    config: GATConfig
    kind = GATLayer

    def layer(self, width: int, out: int) -> GATLayer:
        """Heads side by side."""
        heads = self.config.heads
        return GATLayer(width, out // heads, heads, dropout=self.config.dropout)

    def last_layer(self, width: int, classes: int) -> GATLayer:
        """The mean over heads, each as wide as there are classes."""
        config = self.config
        return GATLayer(width, classes, config.heads, dropout=config.dropout, concat=False)
