"""The convolutions of GCN, GraphSAGE and GAT: PyG's hold the weights, our engine computes them.

What a convolution walks on decides who computes: an ``edge_index`` is for PyG's own code, what
``surroundings`` made is for ours. Values and gradients are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from m3dphormer import masks
from m3dphormer.attention import attend_additive
from m3dphormer.attention.structure import Features, features, plain_features, project
from m3dphormer.masks import Mask
from m3dphormer.models.propagate import Neighbours, edges

ENGINES = ("ours", "pyg")
State = Features | Tensor  # raw features, or what a layer gave


def times(h: State, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The state through a linear layer, [N, d]; raw features are sparse where that is faster."""
    return h.times(weight, bias) if isinstance(h, Features) else project(h, weight, bias)


@dataclass(frozen=True)
class Weighted:
    """Neighbours with a fixed weight for each."""

    near: Neighbours
    values: Tensor

    def sum(self, h: Tensor) -> Tensor:
        """The weighted sum over the neighbours of each node, [N, d]."""
        return self.near.sum(self.values, h)


class Convolution(nn.Module, ABC):
    """One layer of message passing, from ``width`` to ``out``."""

    public: Any  # PyG's

    @abstractmethod
    def __init__(self, width: int, out: int) -> None:
        super().__init__()

    def forward(self, h: State, around: Any) -> Tensor:
        """[N, d], from an ``edge_index`` or from ``surroundings``."""
        if not isinstance(around, Tensor):
            return self.ours(h, around)
        out: Tensor = self.public(h.x if isinstance(h, Features) else h, around)
        return out

    @staticmethod
    @abstractmethod
    def surroundings(data: Data, *, loops: bool) -> Weighted | Mask:
        """What our engine walks on; ``loops``: the graph counts as one with self-loops."""

    @abstractmethod
    def ours(self, h: State, around: Any) -> Tensor:
        """[N, d] by our engine."""


class GCNLayer(Convolution):
    """D^-1/2 (A + I) D^-1/2 H W + b, with D the degrees of A + I."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(width, out)
        self.public = GCNConv(width, out)

    @staticmethod
    def surroundings(data: Data, *, loops: bool) -> Weighted:
        """A + I in any case: no loop counts twice."""
        near = Neighbours.of(data, loops=True)
        return Weighted(near, near.symmetric(data.x.dtype))

    def ours(self, h: State, around: Weighted) -> Tensor:
        answer: Tensor = around.sum(times(h, self.public.lin.weight)) + self.public.bias
        return answer


class SAGELayer(Convolution):
    """H W_self + D^-1 A H W + b; a node without neighbours has 0 for the mean of them."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(width, out)
        self.public = SAGEConv(width, out)

    @staticmethod
    def surroundings(data: Data, *, loops: bool) -> Weighted:
        """With self-loops a node is also among its neighbours."""
        near = Neighbours.of(data, loops=loops)
        return Weighted(near, near.mean(data.x.dtype))

    def ours(self, h: State, around: Weighted) -> Tensor:
        """The mean of H W, which is narrower than that of H."""
        beside, own = self.public.lin_l, self.public.lin_r
        return around.sum(times(h, beside.weight)) + times(h, own.weight, beside.bias)


class GATLayer(Convolution):
    """Attention over l2 with values W h and scores LeakyReLU(a . W h_u + b . W h_v).

    Args:
        width: Of the input.
        out: Of one head.
        heads: Side by side, or averaged where ``concat`` is false.
        dropout: On the attention weights.
        options: Of ``GATConv``.
    """

    def __init__(
        self, width: int, out: int, heads: int = 1, *, dropout: float = 0.0, **options: bool
    ) -> None:
        super().__init__(width, out)
        self.public = GATConv(width, out, heads, dropout=dropout, **options)

    @staticmethod
    def surroundings(data: Data, *, loops: bool) -> Mask:
        """A node attends to itself in any case."""
        return masks.l2(data)

    def ours(self, h: State, around: Mask) -> Tensor:
        conv = self.public
        v = times(h, conv.lin.weight).view(-1, conv.heads, conv.out_channels)  # [N, H, d_h]
        a, b = (v * conv.att_dst).sum(-1), (v * conv.att_src).sum(-1)  # [N, H]
        drop = conv.dropout if self.training else 0.0
        out = attend_additive(a, b, v, around, slope=conv.negative_slope, dropout=drop)
        out = out.flatten(1) if conv.concat else out.mean(1)
        return out if conv.bias is None else out + conv.bias


@dataclass(frozen=True)
class Graph:
    """A graph as convolutions see it."""

    features: Features
    around: Weighted | Mask | Tensor

    @classmethod
    def of(cls, data: Data, kind: type[Convolution], engine: str, *, loops: bool) -> Graph:
        """For one kind of convolution and who computes it."""
        public = engine == "pyg"
        around = edges(data, loops=loops) if public else kind.surroundings(data, loops=loops)
        return cls((plain_features if public else features)(data.x, []), around)
