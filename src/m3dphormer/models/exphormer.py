"""Exphormer: attention along edges, an expander and virtual nodes, beside a GCN (Shirzad et al.).

Each kind of link t has a vector e_t that weighs the channels of a score:

    s_uv = sum_i q_ui k_vi e_ti / sqrt(d_h)

with one softmax over all links of a node, one to itself among its edges; a pair that is linked in
two kinds counts twice. Keys are laid out once for every kind, k_v * e_t, so that this is plain
attention over one mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from m3dphormer.attention import attend
from m3dphormer.attention.scores import DotScores
from m3dphormer.masks import Mask, from_edges
from m3dphormer.masks.expander import expander
from m3dphormer.models import convolutions
from m3dphormer.models.base import Model, check_heads
from m3dphormer.models.convolutions import GCNLayer
from m3dphormer.models.gnn import GNNConfig
from m3dphormer.models.propagate import edges
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import at_least, flag, setting

CLAMP = 5.0


@dataclass(frozen=True)
class ExphormerConfig(GNNConfig):
    """Settings of Exphormer.

    Args:
        degree: Permutations of the expander; a node has twice as many links in it.
        virtual: Virtual nodes that are linked with all others.
        clamp: Keep scores within [-5, 5] and add 1e-6 to their sum, as the authors' code does to
            be safe without a maximum; the formula has neither.
    """

    heads: int = setting(2, at_least(1), search=(1, 2, 4, 8))
    degree: int = setting(3, at_least(1))
    virtual: int = setting(0, at_least(0))
    clamp: bool = setting(False, flag())

    def __post_init__(self) -> None:
        check_heads(self.hidden, self.heads)

    @property
    def kinds(self) -> int:
        """Of links: edges, expander, and to and from each virtual node."""
        return 2 + 2 * self.virtual


@dataclass(frozen=True)
class Graph:
    """What the convolutions see, and who attends to which copy of whom."""

    near: convolutions.Graph
    mask: Mask  # over kinds x (N + virtual) rows; queries are the first N + virtual


class Attention(nn.Module):
    """Attention along links of several kinds."""

    def __init__(self, config: ExphormerConfig) -> None:
        super().__init__()
        self.config = config
        self.query, self.key, self.value, self.kind = (
            nn.Linear(config.hidden, config.hidden, bias=False) for _ in range(4)
        )

    def forward(self, h: Tensor, kinds: Tensor, mask: Mask) -> Tensor:
        """[N + virtual, hidden].

        Args:
            h: [N + virtual, hidden].
            kinds: [kinds, hidden], what is learned about each kind of link.
        """
        count, rows = len(kinds), len(h)
        k = (self.kind(kinds).unsqueeze(1) * self.key(h)).flatten(0, 1)  # [kinds * rows, hidden]
        q, v = self.query(h), self.value(h).repeat(count, 1)
        q = torch.cat([q, q.new_zeros(len(k) - rows, q.shape[1])])
        q, k, v = (part.unflatten(1, (self.config.heads, -1)) for part in (q, k, v))
        seen = clamped(q, k, v, mask) if self.config.clamp else attend(q, k, v, mask)
        return seen[:rows].flatten(1)


def clamped(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
    """``attend`` with exp(clamp(score)) / (their sum + 1e-6) for a softmax."""
    csr = mask.to_csr(q.device)
    scores = DotScores(q, k).at(csr.rows, csr.indices).clamp(-CLAMP, CLAMP).exp()  # [m, H]
    weighted = scores.unsqueeze(2) * v[csr.indices]
    above = torch.zeros_like(v).index_add(0, csr.rows, weighted)
    below = v.new_zeros(v.shape[:2]).index_add(0, csr.rows, scores)
    return above / (below + 1e-6).unsqueeze(2)


class Layer(nn.Module):
    """Norm(h + GCN(h)) + Norm(h + attention(h)), then a feed-forward network with a residual."""

    def __init__(self, config: ExphormerConfig) -> None:
        super().__init__()
        width = config.hidden
        self.gcn, self.attention = GCNLayer(width, width), Attention(config)
        self.gcn_norm, self.attention_norm, self.norm = (nn.BatchNorm1d(width) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)
        self.wide = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.ReLU(),
            self.dropout,
            nn.Linear(2 * width, width),
            self.dropout,
        )

    def forward(
        self, h: Tensor, virtual: Tensor, kinds: Tensor, graph: Graph
    ) -> tuple[Tensor, Tensor]:
        """The next states of the nodes, [N, hidden], and of the virtual nodes."""
        seen = self.attention(torch.cat([h, virtual]), kinds, graph.mask)
        local = self.gcn_norm(h + self.dropout(self.gcn(h, graph.near.around)))
        both = local + self.attention_norm(h + self.dropout(seen[: len(h)]))
        return self.norm(both + self.wide(both)), seen[len(h) :]


@register_model("exphormer")
class Exphormer(Model):
    """The network: a normalised input projection, layers, a linear classifier."""

    config_type = ExphormerConfig

    def __init__(self, features: int, classes: int, config: ExphormerConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        self.input = nn.Linear(features, config.hidden, bias=False)
        self.input_norm, self.dropout = nn.BatchNorm1d(config.hidden), nn.Dropout(config.dropout)
        self.kinds = nn.Parameter(torch.randn(config.kinds, config.hidden))
        start = torch.randn(config.virtual, config.hidden)
        self.virtual = nn.Parameter(start) if config.virtual else None
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.classifier = nn.Linear(config.hidden, classes)

    def extras(self, data: Data) -> dict[str, Tensor]:
        """The expander's edges, ``expander_index``, which are a matter of chance."""
        if "expander_index" in data:
            return {"expander_index": data.expander_index}
        return {"expander_index": expander(int(data.num_nodes), self.config.degree)}

    def prepare(self, data: Data) -> Graph:
        """All links of all kinds, each (query, key), as one mask."""
        n, virtual = int(data.num_nodes), self.config.virtual
        nodes, rows = torch.arange(n), n + virtual
        links = [edges(data, loops=True).cpu(), self.extras(data)["expander_index"].cpu()]
        for v in range(n, rows):
            there = torch.full((n,), v)
            links += [torch.stack([there, nodes]), torch.stack([nodes, there])]
        pairs = [torch.stack([query, kind * rows + key]) for kind, (query, key) in enumerate(links)]
        everyone = Data(num_nodes=self.config.kinds * rows)
        mask = from_edges(everyone, torch.cat(pairs, dim=1), name="exphormer", level="global")
        near = convolutions.Graph.of(data, GCNLayer, self.config.engine, loops=False)
        return Graph(near, mask)

    def forward(self, graph: Graph) -> Tensor:
        """Logits of the nodes, [N, C]."""
        h = self.dropout(self.input_norm(graph.near.features.project(self.input))).relu()
        virtual = h[:0] if self.virtual is None else self.virtual
        for layer in self.layers:
            h, virtual = layer(h, virtual, self.kinds, graph)
        logits: Tensor = self.classifier(h)
        return logits
