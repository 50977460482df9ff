"""SGFormer: one layer of all-pair attention without softmax beside a GCN (Wu et al., 2023).

Q and K are divided by their Frobenius norms over all nodes and heads; then, for each head,

    Z = (V + Q (K^T V) / N) / (1 + Q (K^T 1) / N)

whose mean over the heads is mixed with the state before. Linear in the number of nodes N. The
classifier reads alpha GCN(X) + (1 - alpha) Z. On citation graphs the authors leave out LayerNorm,
the projection V and the state before: the plain attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.linalg import vector_norm
from torch_geometric.data import Data

from m3dphormer.attention.structure import Features
from m3dphormer.models.base import Model
from m3dphormer.models.convolutions import GCNLayer, Graph
from m3dphormer.models.gcn_branch import NORMS, GCNBranch, ResidualBranch
from m3dphormer.models.gnn import GNNConfig
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import at_least, between, flag, one_of, setting


@dataclass(frozen=True)
class SGFormerConfig(GNNConfig):
    """Settings of SGFormer; ``layers`` and ``dropout`` are the GCN's.

    Args:
        heads: Of the attention, each as wide as ``hidden``.
        attention: "full", or "plain": without norms, projected values and residual.
        alpha: Weight of the GCN; the attention has the rest.
        residual: Weight of the attention against the state before it.
        norm: "batch" normalisation between the layers of the GCN, or "none".
        gcn_residual: Whether the GCN has a linear stem, which is added to each of its layers.
        attention_dropout: Dropout on the features of the attention branch.
        attention_weight_decay: Of the attention branch; ``weight_decay`` is that of the others.
    """

    heads: int = setting(1, at_least(1), search=(1, 2, 4, 8))
    attention: str = setting("full", one_of("full", "plain"), search=("full", "plain"))
    alpha: float = setting(0.8, between(0, 1), search=(0.5, 0.8))
    residual: float = setting(0.5, between(0, 1))
    norm: str = setting("none", one_of(*NORMS), search=tuple(NORMS))
    gcn_residual: bool = setting(False, flag(), search=(False, True))
    attention_dropout: float = setting(0.2, between(0, 1))
    attention_weight_decay: float = setting(0.001, between(0, 10))


class Attention(nn.Module):
    """The attention branch."""

    def __init__(self, features: int, config: SGFormerConfig) -> None:
        super().__init__()
        plain = config.attention == "plain"
        norm = nn.Identity if plain else nn.LayerNorm
        self.heads, self.residual = config.heads, 1.0 if plain else config.residual
        width, wide = config.hidden, config.hidden * config.heads
        self.dropout = nn.Dropout(config.attention_dropout)
        self.input, self.input_norm = nn.Linear(features, width), norm(width)
        self.query, self.key = nn.Linear(width, wide), nn.Linear(width, wide)
        self.value = None if plain else nn.Linear(width, wide)
        self.norm = norm(width)

    def forward(self, x: Features) -> Tensor:
        """[N, hidden]."""
        h = self.dropout(self.input_norm(x.project(self.input)).relu())
        q, k = self._by_head(self.query(h)), self._by_head(self.key(h))
        v = h.unsqueeze(0) if self.value is None else self._by_head(self.value(h))
        q, k = q / vector_norm(q), k / vector_norm(k)
        above = v + q @ (k.mT @ v) / len(h)
        below = 1 + q @ k.sum(dim=1).unsqueeze(2) / len(h)  # [H, N, 1]
        seen = (above / below).mean(dim=0)
        out: Tensor = self.dropout(self.norm(self.residual * seen + (1 - self.residual) * h))
        return out

    def _by_head(self, projected: Tensor) -> Tensor:
        """[H, N, hidden]."""
        return projected.view(len(projected), self.heads, -1).transpose(0, 1)


@register_model("sgformer")
class SGFormer(Model):
    """The network: two branches and a linear classifier."""

    config_type = SGFormerConfig

    def __init__(self, features: int, classes: int, config: SGFormerConfig) -> None:
        super().__init__(features, classes, config)
        self.alpha, self.decay = config.alpha, config.attention_weight_decay
        self.attention_branch = Attention(features, config)
        self.engine = config.engine
        width, layers, how = config.hidden, config.layers, (config.norm, config.dropout)
        self.gcn = (
            ResidualBranch(features, width, layers, *how)
            if config.gcn_residual
            else GCNBranch([features, *[width] * layers], *how)
        )
        self.classifier = nn.Linear(config.hidden, classes)

    def prepare(self, data: Data) -> Graph:
        """Neighbours and features."""
        return Graph.of(data, GCNLayer, self.engine, loops=False)

    def forward(self, graph: Graph) -> Tensor:
        """Logits of the nodes, [N, C]."""
        local, everywhere = self.gcn(graph), self.attention_branch(graph.features)
        logits: Tensor = self.classifier(self.alpha * local + (1 - self.alpha) * everywhere)
        return logits

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """The attention branch has a weight decay of its own."""
        others = [*self.gcn.parameters(), *self.classifier.parameters()]
        return [
            {"params": list(self.attention_branch.parameters()), "weight_decay": self.decay},
            {"params": others},
        ]
