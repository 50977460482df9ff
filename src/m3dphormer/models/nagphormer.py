"""NAGphormer: a node is a sequence of what it sees at each number of hops (Chen et al., 2023).

Token k of a node is its row of A^k [X, encodings], A normalised with self-loops. A transformer
encoder reads the tokens, and an attention over the hops makes one state of them:

    h_0 + sum_k softmax_k(w · h_k) h_k

Wide features are projected before they are propagated, A^k (X W) for (A^k X) W, which is the same
and leaves sparse features sparse; narrow ones are propagated once and kept.

Trained in mini-batches of nodes. The authors' schedule (AdamW, warm-up, polynomial decay) is left
out: every model of the package is trained with Adam at a constant rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch_geometric.data import Data

from m3dphormer.attention import structure
from m3dphormer.graph.encodings import laplacian_encoding
from m3dphormer.masks.adjacency import edges
from m3dphormer.models.base import Model, ModelConfig, check_heads
from m3dphormer.models.convolutions import GCNLayer, Graph, Weighted
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import at_least, between, setting

NARROW = 256  # features up to which tokens are kept


@dataclass(frozen=True)
class NAGphormerConfig(ModelConfig):
    """Settings of NAGphormer.

    Args:
        hops: K, the tokens beside the node's own.
        encodings: Laplacian eigenvectors beside the features; those of another graph may have
            little in common with these.
        attention_dropout: Dropout on the attention weights; ``dropout`` acts on features.
        batch: Nodes in a mini-batch, and in a chunk of an evaluation.
    """

    layers: int = setting(1, at_least(1))
    heads: int = setting(8, at_least(1), search=(1, 2, 4, 8))
    hops: int = setting(3, at_least(1), search=(3, 5, 7, 10, 15))
    encodings: int = setting(3, at_least(0))
    attention_dropout: float = setting(0.1, between(0, 1))
    batch: int = setting(2000, at_least(1))

    def __post_init__(self) -> None:
        check_heads(self.hidden, self.heads)


class Layer(nn.Module):
    """x + dropout(attention(norm x)), then the same with a feed-forward network."""

    def __init__(self, config: NAGphormerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden
        self.attention_norm, self.forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)  # a bias would cancel in the softmax
        self.output = nn.Linear(width, width)
        self.wide = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """The next state of the tokens, [B, K + 1, hidden]."""
        z = self.attention_norm(x)
        q, k, v = (self._heads(part(z)) for part in (self.query, self.key, self.value))
        p = self.config.attention_dropout if self.training else 0.0
        seen = scaled_dot_product_attention(q, k, v, dropout_p=p)  # [B, H, K + 1, d_h]
        x = x + self.dropout(self.output(seen.transpose(1, 2).flatten(2)))
        out: Tensor = x + self.dropout(self.wide(self.forward_norm(x)))
        return out

    def _heads(self, z: Tensor) -> Tensor:
        return z.view(*z.shape[:2], self.config.heads, -1).transpose(1, 2)


@register_model("nagphormer")
class NAGphormer(Model):
    """The network; a graph is its nodes' tokens [N, K + 1, F], or what gives projected ones."""

    config_type = NAGphormerConfig

    def __init__(self, features: int, classes: int, config: NAGphormerConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        width, half = config.hidden, max(config.hidden // 2, 1)
        self.input = nn.Linear(features + config.encodings, width)
        self.layers = nn.Sequential(*(Layer(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(width)
        self.readout = nn.Linear(width, 1, bias=False)
        self.classifier = nn.Sequential(nn.Linear(width, half), nn.ReLU(), nn.Linear(half, classes))
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.02 / math.sqrt(config.layers))
                if part.bias is not None:
                    nn.init.zeros_(part.bias)

    def extras(self, data: Data) -> dict[str, Tensor]:
        """The Laplacian ``encoding`` of each node, whose signs are a matter of convention."""
        if "encoding" in data:
            return {"encoding": data.encoding}
        count = self.config.encodings
        return {"encoding": laplacian_encoding(edges(data), int(data.num_nodes), count)}

    def prepare(self, data: Data) -> Tensor | Graph:
        """Hop by hop what each node sees; neighbours and features, where those are wide."""
        around = GCNLayer.surroundings(data, loops=True)
        x = torch.cat([data.x, self.extras(data)["encoding"].to(data.x)], dim=1)
        if x.shape[1] > NARROW:
            return Graph(structure.features(x, []), around)
        return propagated(x, around, self.config.hops)

    def forward(self, graph: Tensor | Graph) -> Tensor:
        """Logits of the nodes, [N, C], a chunk at a time."""
        tokens, project = self._tokens(graph)
        chunks = torch.split(tokens, self.config.batch)
        return torch.cat([self.classify(project(chunk)) for chunk in chunks])

    def losses(self, graph: Tensor | Graph, data: Data) -> Iterator[Tensor]:
        """Cross-entropy over each mini-batch of training nodes, in random order."""
        train = data.train_mask.nonzero().squeeze(1)
        order = torch.randperm(len(train)).to(train.device)
        for rows in torch.split(train[order], self.config.batch):
            tokens, project = self._tokens(graph)
            yield cross_entropy(self.classify(project(tokens[rows])), data.y[rows])

    def classify(self, tokens: Tensor) -> Tensor:
        """Logits of some nodes, [B, C], from their projected tokens."""
        states = self.norm(self.layers(tokens))  # [B, K + 1, hidden]
        own, seen = states[:, 0], states[:, 1:]
        shares = self.readout(seen).softmax(dim=1)  # what w says of h_0 cancels
        logits: Tensor = self.classifier(own + (shares * seen).sum(dim=1))
        return logits

    def _tokens(self, graph: Tensor | Graph) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Of all nodes, [N, K + 1, ...], and what is left to do to project them."""
        if isinstance(graph, Tensor):
            return graph, self.input
        assert isinstance(graph.around, Weighted)
        h = graph.features.times(self.input.weight)
        return propagated(h, graph.around, self.config.hops), partial(torch.add, self.input.bias)


def propagated(h: Tensor, around: Weighted, hops: int) -> Tensor:
    """[H, A H, A^2 H, ...] of each node, [N, hops + 1, width]."""
    tokens = [h]
    for _ in range(hops):
        tokens.append(around.sum(tokens[-1]))
    return torch.stack(tokens, dim=1)
