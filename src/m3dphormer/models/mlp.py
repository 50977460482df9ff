"""MLP: what the features alone tell; linear layers with ReLU and dropout between them."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import dropout
from torch_geometric.data import Data

from m3dphormer.attention.structure import Features, features
from m3dphormer.models.base import Model, ModelConfig
from m3dphormer.models.convolutions import State, times
from m3dphormer.models.registry import register_model


class Perceptron(nn.Module):
    """Linear layers with ReLU and dropout between them, on raw features."""

    def __init__(self, width: int, out: int, config: ModelConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        widths = [width, *[config.hidden] * (config.layers - 1)]
        outs = [*widths[1:], out]
        self.layers = nn.ModuleList(map(nn.Linear, widths, outs))

    def forward(self, x: State) -> Tensor:
        """[N, out]."""
        *hidden, last = self.layers
        for layer in hidden:
            z = times(x, layer.weight, layer.bias).relu()  # type: ignore[arg-type]
            x = dropout(z, self.dropout, self.training)
        return times(x, last.weight, last.bias)  # type: ignore[arg-type]


@register_model("mlp")
class MLP(Model):
    """A multi-layer perceptron that does not look at the edges."""

    def __init__(self, features: int, classes: int, config: ModelConfig) -> None:
        super().__init__(features, classes, config)
        self.network = Perceptron(features, classes, config)

    def prepare(self, data: Data) -> Features:
        """The features."""
        return features(data.x, [])

    def forward(self, graph: Features) -> Tensor:
        """Logits, [N, C]."""
        logits: Tensor = self.network(graph)
        return logits
