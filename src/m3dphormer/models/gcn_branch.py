"""The GCN that stands beside the attention of a graph transformer."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from m3dphormer.models.convolutions import GCNLayer, Graph, State

NORMS = {"none": nn.Identity, "batch": nn.BatchNorm1d}


class GCNBranch(nn.Module):
    """Convolution, norm, ReLU and dropout, again and again; the last layer is a convolution alone.

    Args:
        widths: Of the features, of each layer in between, and of the answer.
        norm: "none" or "batch".
        dropout: On what each layer but the last gives.
    """

    def __init__(self, widths: list[int], norm: str, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GCNLayer(*pair) for pair in pairwise(widths))
        self.norms = nn.ModuleList(NORMS[norm](width) for width in widths[1:-1])
        self.dropout = nn.Dropout(dropout)

    def forward(self, graph: Graph) -> Tensor:
        """[N, width of the answer]."""
        *hidden, last = self.layers
        h: State = graph.features
        for layer, norm in zip(hidden, self.norms, strict=True):
            h = self.dropout(norm(layer(h, graph.around)).relu())
        out: Tensor = last(h, graph.around)
        return out


class ResidualBranch(nn.Module):
    """A linear stem, then convolutions; each one's answer is added to the state of the stem.

    All are followed by norm, ReLU and dropout. It is what SGFormer and CoBFormer take in place of
    the plain GCN on large graphs; deep, it does not smooth the features away.

    Args:
        features: Of a node.
        hidden: Width of all states, also of the answer.
        layers: Number of convolutions.
        norm: "none" or "batch".
        dropout: On what each layer gives.
    """

    def __init__(self, features: int, hidden: int, layers: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.stem = nn.Linear(features, hidden)
        self.layers = nn.ModuleList(GCNLayer(hidden, hidden) for _ in range(layers))
        self.norms = nn.ModuleList(NORMS[norm](hidden) for _ in range(layers + 1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, graph: Graph) -> Tensor:
        """[N, hidden]."""
        first, *norms = self.norms
        stem: Tensor = self.dropout(first(graph.features.project(self.stem)).relu())
        h = stem
        for layer, norm in zip(self.layers, norms, strict=True):
            h = self.dropout(norm(layer(h, graph.around)).relu()) + stem
        return h
