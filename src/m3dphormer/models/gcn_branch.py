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
