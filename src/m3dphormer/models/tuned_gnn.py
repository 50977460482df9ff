"""GCN*, GAT* and SAGE*: classic networks with residuals and norms (Luo et al., 2024).

A layer is dropout(ReLU(norm(conv(H) + H W_res))), on a graph with self-loops; a linear classifier
reads the last state, or the sum of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch_geometric.data import Data

from m3dphormer.attention.structure import dropout
from m3dphormer.models.base import Model, check_heads
from m3dphormer.models.convolutions import (
    Convolution,
    GATLayer,
    GCNLayer,
    Graph,
    SAGELayer,
    State,
    times,
)
from m3dphormer.models.gnn import GNNConfig
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import at_least, flag, one_of, setting

NORMS = {"none": nn.Identity, "layer": nn.LayerNorm, "batch": nn.BatchNorm1d}


@dataclass(frozen=True)
class TunedConfig(GNNConfig):
    """Settings of a tuned network.

    Args:
        norm: After the convolution: "none", "layer" or "batch".
        residual: Whether a linear map of a layer's input is added to its convolution.
        pre_linear: Whether a linear layer with dropout comes before the first convolution.
        jumping: Whether the classifier reads the sum of all layers, not the last one.
    """

    norm: str = setting("layer", one_of(*NORMS), search=tuple(NORMS))
    residual: bool = setting(True, flag(), search=(True, False))
    pre_linear: bool = setting(False, flag())
    jumping: bool = setting(False, flag())


@dataclass(frozen=True)
class TunedGATConfig(TunedConfig):
    """Of GAT*: ``heads`` share ``hidden``."""

    heads: int = setting(1, at_least(1), search=(1, 2, 4, 8))

    def __post_init__(self) -> None:
        check_heads(self.hidden, self.heads)


class Layer(nn.Module):
    """ReLU(norm(conv(H) + H W_res)); dropout is the network's."""

    def __init__(self, width: int, convolution: Convolution, config: TunedConfig) -> None:
        super().__init__()
        self.convolution = convolution
        self.residual = nn.Linear(width, config.hidden) if config.residual else None
        self.norm = NORMS[config.norm](config.hidden)

    def forward(self, h: State, graph: Graph) -> Tensor:
        """The next state, [N, hidden]."""
        out: Tensor = self.convolution(h, graph.around)
        if self.residual is not None:
            out = out + times(h, self.residual.weight, self.residual.bias)
        out = self.norm(out)
        return out.relu()


class TunedGNN(Model):
    """Layers around one kind of convolution, and a linear classifier."""

    config_type = TunedConfig
    kind: ClassVar[type[Convolution]]

    def __init__(self, features: int, classes: int, config: TunedConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        self.input = nn.Linear(features, config.hidden) if config.pre_linear else None
        first = config.hidden if config.pre_linear else features
        widths = [first, *[config.hidden] * (config.layers - 1)]
        self.layers = nn.ModuleList(Layer(w, self.convolution(w), config) for w in widths)
        self.classifier = nn.Linear(config.hidden, classes)

    def convolution(self, width: int) -> Convolution:
        """From ``width`` to ``hidden``."""
        return self.kind(width, self.config.hidden)

    def prepare(self, data: Data) -> Graph:
        """Neighbours, every node among its own, and features."""
        return Graph.of(data, self.kind, self.config.engine, loops=True)

    def forward(self, graph: Graph) -> Tensor:
        """Logits, [N, C]."""
        h: State = graph.features
        if self.input is not None:
            h = self._drop(times(h, self.input.weight, self.input.bias))
        states = []
        for layer in self.layers:
            h = self._drop(layer(h, graph))
            states.append(h)
        read = sum(states[1:], states[0]) if self.config.jumping else states[-1]
        logits: Tensor = self.classifier(read)
        return logits

    def _drop(self, h: Tensor) -> Tensor:
        return dropout(h, self.config.dropout, self.training)


@register_model("gcn*")
class TunedGCN(TunedGNN):
    """GCN with residuals and norms."""

    kind = GCNLayer


@register_model("sage*")
class TunedSAGE(TunedGNN):
    """GraphSAGE with residuals and norms; a node counts among its own neighbours."""

    kind = SAGELayer


@register_model("gat*")
class TunedGAT(TunedGNN):
    """GAT with residuals and norms; no bias, no attention dropout."""

    config_type = TunedGATConfig
    config: TunedGATConfig
    kind = GATLayer

    def convolution(self, width: int) -> GATLayer:
        """Heads side by side."""
        heads = self.config.heads
        share = self.config.hidden // heads
        return GATLayer(width, share, heads, add_self_loops=False, bias=False)
