"""M3Dphormer: three masked-attention experts under bi-level routing (the paper's section 4).

Reads top to bottom: settings and their two presets, the graph as the network sees it, an expert,
the router, a layer (Eq. 4), the network. Row order everywhere: real nodes, cluster nodes, class
nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from m3dphormer import masks
from m3dphormer.attention import DEFAULT_SCHEME, SCHEMES, attend, attend_additive, structure
from m3dphormer.attention.dropout import Dropout, keywords
from m3dphormer.attention.planner import PlannedRegion, Shape, Work, plan_mask
from m3dphormer.attention.scores import AdditiveScores, DotScores
from m3dphormer.graph import class_count
from m3dphormer.masks import Layout, Mask
from m3dphormer.masks.layout import ROLES
from m3dphormer.models import m3dphormer_work
from m3dphormer.models.base import Attention, Model, ModelConfig, check_heads
from m3dphormer.models.registry import register_model
from m3dphormer.models.settings import (
    Rule,
    at_least,
    between,
    either,
    flag,
    one_of,
    setting,
    word,
)


@dataclass(frozen=True)
class M3DphormerConfig(ModelConfig):
    """Settings of M3Dphormer; every difference between the two presets is a named switch.

    Args:
        experts: One mask name an expert.
        routing: "bilevel" (Eq. 5), "softmax" over all experts, or "uniform" without routing.
        clusters: Number of METIS clusters, or "auto" for about N/32.
        attention_dropout: Dropout on the attention weights; ``dropout`` acts on features.
        norm: "rms" before the experts, or "batch" after the residual sum.
        scheme: How attention is computed; does not change the result.
        input: "linear": X W; "skip": dropout(z + ReLU(z)) with z = X W + b.
        readout: What the classifier reads: the "last" state or the "sum" of all.
        local_values: The local expert's values are its "shared" score projection or "own".
        virtual_gates: Virtual nodes are "routed" like real ones, or "fixed": cluster nodes take
            the cluster expert alone, class nodes the global expert alone.
        cluster_self_loops: Whether a cluster node sees itself.
        bias: Biases everywhere but in the gates.
        norm_bias: A bias in RMSNorm.
        loss: "mean" over training and class nodes together, or "weighted": CE(train) +
            (class nodes / training nodes) CE(class nodes), the same up to a factor.
    """

    preset: str = setting("official", Rule("a preset", lambda v: isinstance(v, str)))
    experts: tuple[str, ...] = setting(
        ("l2", "c4", "g3"),
        Rule("a list of mask names", lambda v: isinstance(v, tuple) and len(set(v)) == len(v) > 0),
    )
    routing: str = setting("bilevel", one_of("bilevel", "softmax", "uniform"))
    heads: int = setting(2, at_least(1), search=(1, 2, 4, 8))
    clusters: int | str = setting("auto", either(at_least(1), word("auto")))
    attention_dropout: float = setting(0.1, between(0, 1), search=(0.1, 0.3, 0.5))
    norm: str = setting("rms", one_of("rms", "batch"))
    scheme: str = setting(DEFAULT_SCHEME, one_of(*SCHEMES))
    input: str = setting("skip", one_of("linear", "skip"))
    readout: str = setting("sum", one_of("last", "sum"))
    local_values: str = setting("own", one_of("shared", "own"))
    virtual_gates: str = setting("fixed", one_of("routed", "fixed"))
    cluster_self_loops: bool = setting(True, flag())
    bias: bool = setting(True, flag())
    norm_bias: bool = setting(True, flag())
    loss: str = setting("weighted", one_of("mean", "weighted"))

    PRESETS: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "official": {},
        "paper": {
            "input": "linear",
            "readout": "last",
            "local_values": "shared",
            "virtual_gates": "routed",
            "cluster_self_loops": False,
            "bias": False,
            "norm_bias": False,
            "loss": "mean",
        },
    }

    def __post_init__(self) -> None:
        for name in self.experts:
            masks.level_of(name)
        check_heads(self.hidden, self.heads)


@dataclass(frozen=True)
class Graph:
    """A graph as the network sees it: features of all T rows and one mask an expert."""

    features: structure.Features  # a virtual node has the mean of its members' raw features
    layout: Layout
    masks: tuple[Mask, ...]
    virtual_gates: Tensor  # [T - N, experts], used where virtual gates are fixed
    states: Tensor | None = None  # [layers, T - N, hidden], where virtual rows are constants

    def entering(self, h: Tensor, layer: int) -> Tensor:
        """What a layer reads, [T, hidden]: the state, or its real rows above the constants."""
        return h if self.states is None else torch.cat([h[: self.layout.nodes], self.states[layer]])


class Expert(nn.Module):
    """Multi-head attention over one mask; additive scores at the local level, else dot-product."""

    def __init__(self, config: M3DphormerConfig, name: str) -> None:
        super().__init__()
        self.config = config
        self.additive = masks.level_of(name) == "local"
        width, heads = config.hidden, config.heads
        self.value = nn.Linear(width, width, bias=config.bias)
        if self.additive:
            own = config.local_values == "own"
            self.score = nn.Linear(width, width, bias=config.bias) if own else None
            self.score_query = nn.Parameter(torch.empty(heads, width // heads))
            self.score_key = nn.Parameter(torch.empty(heads, width // heads))
            nn.init.xavier_uniform_(self.score_query)
            nn.init.xavier_uniform_(self.score_key)
        else:
            self.query = nn.Linear(width, width, bias=config.bias)
            self.key = nn.Linear(width, width, bias=config.bias)

    def forward(self, h: Tensor, mask: Mask, dropout: Dropout | None) -> Tensor:
        """Heads side by side, [T, hidden]."""
        options = {"scheme": self.config.scheme, **keywords(dropout)}
        v = self._heads(self.value(h))
        scores = self.scores(h, v)
        if isinstance(scores, AdditiveScores):
            out = attend_additive(scores.a, scores.b, v, mask, **options)
        else:
            out = attend(scores.q, scores.k, v, mask, **options)
        return out.flatten(1)

    def scores(self, h: Tensor, v: Tensor) -> AdditiveScores | DotScores:
        """Of every pair of rows, from the state [T, hidden] and the values [T, H, d_h]."""
        if not self.additive:
            return DotScores(self._heads(self.query(h)), self._heads(self.key(h)))
        s = v if self.score is None else self._heads(self.score(h))
        a, b = (s * self.score_query).sum(-1), (s * self.score_key).sum(-1)  # [T, H]
        return AdditiveScores(a, b)

    def attention(self, h: Tensor, mask: Mask, row: int) -> tuple[Tensor, Tensor]:
        """The keys of one row, [k], and its weights on them, [k, H]."""
        csr = mask.to_csr(h.device)
        keys = csr.indices[csr.indptr[row] : csr.indptr[row + 1]]
        scores = self.scores(h, self._heads(self.value(h)))
        return keys, scores.at(torch.full_like(keys, row), keys).softmax(dim=0)

    def weights(self) -> structure.DotWeights | structure.AdditiveWeights:
        """What it is made of, for a layer that is computed by its structure."""
        if not self.additive:
            return structure.DotWeights(self.query, self.key, self.value, self.config.heads)
        score = self.value if self.score is None else self.score
        vectors = (self.score_query, self.score_key)
        return structure.AdditiveWeights(score, *vectors, self.value, self.config.heads)

    def sizes(self, mask: Mask) -> m3dphormer_work.Expert:
        """What it is, for the forecast."""
        config = self.config
        shape = Shape(config.heads, config.hidden, self.additive, config.attention_dropout > 0)
        projections = sum(isinstance(part, nn.Linear) for part in self.children())
        return m3dphormer_work.Expert(self.weights(), mask, shape, projections)

    def _heads(self, h: Tensor) -> Tensor:
        return h.view(len(h), self.config.heads, -1)  # [T, H, d_h]


class Router(nn.Module):
    """How much of each expert a row takes (Eq. 5); gates without bias, zero at the start."""

    def __init__(self, config: M3DphormerConfig) -> None:
        super().__init__()
        self.experts = len(config.experts)
        self.kind = config.routing
        if self.kind == "bilevel" and self.experts > 3:
            self.kind = "softmax"  # two levels serve at most three experts
        outputs = {"bilevel": self.experts - 1, "softmax": self.experts, "uniform": 0}[self.kind]
        self.gate = nn.Linear(config.hidden, outputs, bias=False) if outputs else None
        if self.gate is not None:
            nn.init.zeros_(self.gate.weight)

    def logits(self, h: Tensor) -> Tensor | None:
        """What is learned about each row, [T, experts - 1] or [T, experts]; None: nothing."""
        return None if self.gate is None else self.gate(h)

    def forward(self, logits: Tensor | None, like: Tensor) -> Tensor:
        """[T, experts], rows that sum to 1: b1, (1 - b1) b2, (1 - b1)(1 - b2) for three experts."""
        if logits is None:
            return like.new_full((len(like), self.experts), 1 / self.experts)
        if self.kind == "softmax":
            return logits.softmax(dim=1)
        rest, shares = logits.new_ones(len(logits)), []
        for beta in logits.sigmoid().unbind(dim=1):
            shares.append(rest * beta)
            rest = rest * (1 - beta)
        return torch.stack([*shares, rest], dim=1)


class RMSNorm(nn.Module):
    """h / sqrt(mean(h^2) + eps) * weight + bias."""

    def __init__(self, width: int, *, bias: bool, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.eps = eps

    def forward(self, h: Tensor) -> Tensor:
        h = h * (h.square().mean(dim=1, keepdim=True) + self.eps).rsqrt() * self.weight
        return h if self.bias is None else h + self.bias


@dataclass(frozen=True)
class Chance:
    """What is dropped in one forward pass: every call under one seed drops on its own."""

    seed: int
    config: M3DphormerConfig
    training: bool

    def attention(self, layer: int, expert: int) -> Dropout | None:
        """Of an expert's attention weights."""
        return self._drop(self.config.attention_dropout, layer, expert)

    def features(self, layer: int) -> Dropout | None:
        """Of what a layer adds to its residual; layer -1 is the input."""
        return self._drop(self.config.dropout, layer, len(self.config.experts))

    def _drop(self, p: float, layer: int, place: int) -> Dropout | None:
        call = (1 + layer) * (1 + len(self.config.experts)) + place
        return Dropout(p, self.seed, call) if self.training and p else None


class Layer(nn.Module):
    """H^l = dropout(ReLU(BiMoE(Norm(H), masks))) + H W_res (Eq. 4), or with the norm at the end."""

    def __init__(self, config: M3DphormerConfig) -> None:
        super().__init__()
        self.config = config
        self.pre = config.norm == "rms"
        width = config.hidden
        self.norm = RMSNorm(width, bias=config.norm_bias) if self.pre else nn.BatchNorm1d(width)
        self.router = Router(config)
        self.experts = nn.ModuleList(Expert(config, name) for name in config.experts)
        self.residual = nn.Linear(width, width, bias=config.bias)

    def forward(self, h: Tensor, graph: Graph, chance: Chance, at: int) -> tuple[Tensor, Tensor]:
        """The next state [T, hidden] and the gates [T, experts]."""
        if self._must_recompute(h, at):
            out, gates = structure.recomputed(self._experts, h, graph, chance, at)
        else:
            out, gates = self._experts(h, graph, chance, at)
        return (out if self.pre else self.norm(out)), gates

    def _experts(self, h: Tensor, graph: Graph, chance: Chance, at: int) -> tuple[Tensor, Tensor]:
        drops = [chance.attention(at, i) for i in range(len(self.experts))]
        fused = structure.structured(self.config.scheme, h)
        if fused:
            logits, answers, residual = self._by_structure(h, graph, drops)
        else:
            z = self.norm(h) if self.pre else h
            logits, residual = self.router.logits(z), self.residual(h)
            rows = zip(self.experts, graph.masks, drops, strict=True)
            answers = [
                structure.Piece(i, 0, expert(z, mask, drop))
                for i, (expert, mask, drop) in enumerate(rows)
            ]
        gates = self.router(logits, h)
        if self.config.virtual_gates == "fixed":
            gates = torch.cat([gates[: graph.layout.nodes], graph.virtual_gates])
        return structure.mix(answers, gates, residual, chance.features(at), fused=fused), gates

    def attention(self, h: Tensor, graph: Graph, row: int) -> list[Attention]:
        """Whom a row attends to, by expert."""
        z, found = self.norm(h) if self.pre else h, []
        for name, expert, mask in zip(self.config.experts, self.experts, graph.masks, strict=True):
            keys, weights = expert.attention(z, mask, row)  # type: ignore[operator]
            places = [graph.layout.role_of(key) for key in keys.tolist()]
            numbers = torch.tensor([number for _, number in places], dtype=torch.long)
            found.append(Attention(name, tuple(role for role, _ in places), numbers, weights))
        return found

    def _must_recompute(self, h: Tensor, at: int) -> bool:
        """The last layers keep their insides as long as there is room."""
        if not structure.structured(self.config.scheme, h):
            return False
        return at < self.config.layers - structure.kept_layers(h)

    def _by_structure(
        self, h: Tensor, graph: Graph, drops: list[Dropout | None]
    ) -> tuple[Tensor | None, list[structure.Piece], Tensor]:
        """The same three, without the work that the masks of the paper make needless."""
        experts = [
            structure.Expert(expert.weights(), mask, drop)  # type: ignore[operator]
            for expert, mask, drop in zip(self.experts, graph.masks, drops, strict=True)
        ]
        norm = None
        if isinstance(self.norm, RMSNorm):
            norm = structure.Norm(self.norm.weight, self.norm.bias, self.norm.eps)
        return structure.attend_all(
            h, graph.layout, experts, norm=norm, gate=self.router.gate, residual=self.residual
        )


@register_model("m3dphormer")
class M3Dphormer(Model):
    """The network: input projection, L layers, a linear classifier."""

    config_type = M3DphormerConfig

    def __init__(self, features: int, classes: int, config: M3DphormerConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        self.input = nn.Linear(features, config.hidden, bias=config.bias)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.classifier = nn.Linear(config.hidden, classes, bias=config.bias)
        self.levels = [masks.level_of(name) for name in config.experts]
        distinct = len(set(self.levels)) == len(self.levels)
        self.gate_names = tuple(self.levels) if distinct else config.experts

    def partition(self, data: Data) -> Tensor | None:
        """The cluster of each node, [N], if an expert is of the cluster level.

        A partition ``data.cluster`` that comes with the graph is taken as it is.
        """
        if "cluster" not in self.levels:
            return None
        return masks.assign(data, data.cluster if "cluster" in data else self.config.clusters)

    def prepare(self, data: Data) -> Graph:
        """Partition, masks and features of the virtual nodes."""
        cluster, loops = self.partition(data), self.config.cluster_self_loops
        built = [
            masks.build_from(name, data, {"clusters": cluster, "self_loops": loops})
            for name in self.config.experts
        ]
        layout = Layout(nodes=int(data.num_nodes))
        for mask in built:
            layout = layout | mask.layout

        x, groups = data.x, []
        if layout.clusters and cluster is not None:
            groups.append((cluster.to(x.device), layout.clusters))
        if layout.classes:
            groups.append((torch.where(data.train_mask, data.y, -1), layout.classes))
        if layout.virtual:
            everyone = torch.zeros(len(x), dtype=torch.long, device=x.device)
            groups += [(everyone, 1)] * layout.virtual
        fused = self.config.scheme == DEFAULT_SCHEME
        make = structure.features if fused else structure.plain_features
        return Graph(
            features=make(x, groups),
            layout=layout,
            masks=tuple(mask.widen(layout) for mask in built),
            virtual_gates=_own_level_gates(layout, self.levels).to(x.device),
        )

    def virtual_states(self, graph: Graph) -> dict[str, Tensor]:
        """What each layer reads of cluster, class and plain virtual nodes."""
        layout, states = graph.layout, torch.stack(self.states(graph)[0][:-1])
        return {role: states[:, layout.rows(role)] for role in ROLES[1:] if layout.size(role)}

    def prepare_unseen(self, data: Data, states: Mapping[str, Tensor]) -> Graph:
        """The graph with its virtual rows as they were in training."""
        graph = self.prepare(data)
        fixed = [states[role] for role in ROLES[1:] if graph.layout.size(role)]
        return replace(graph, states=torch.cat(fixed, dim=1) if fixed else None)

    def states(self, graph: Graph) -> tuple[list[Tensor], Tensor]:
        """H^0 ... H^L, each [T, hidden], and the gates, [layers, T, experts]."""
        seed = int(torch.randint(2**62, ())) if self.training else 0
        chance = Chance(seed, self.config, self.training)
        h = graph.features.project(self.input)
        if self.config.input == "skip":
            fused = structure.structured(self.config.scheme, h)
            h = structure.skip(h, chance.features(-1), fused=fused)
        states, gates = [], []
        for i, layer in enumerate(self.layers):
            states.append(graph.entering(h, i))
            h, gate = layer(states[i], graph, chance, i)
            gates.append(gate)
        return [*states, h], torch.stack(gates)

    def encode(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """What the classifier reads, [T, hidden], and the gates, [layers, T, experts]."""
        states, gates = self.states(graph)
        return (sum(states[1:], states[0]) if self.config.readout == "sum" else states[-1]), gates

    def forward(self, graph: Graph) -> Tensor:
        """Logits of the real nodes, [N, C]."""
        logits: Tensor = self.classifier(self.encode(graph)[0][: graph.layout.nodes])
        return logits

    def gates(self, graph: Graph) -> Tensor:
        """How much of each expert every real node takes, [layers, N, experts]."""
        return self.encode(graph)[1][:, : graph.layout.nodes]

    def attention(self, graph: Graph, row: int) -> list[list[Attention]]:
        """Whom a row attends to, by layer and expert."""
        states, _ = self.states(graph)
        return [
            layer.attention(h, graph, row)  # type: ignore[operator]
            for layer, h in zip(self.layers, states[:-1], strict=True)
        ]

    def loss(self, graph: Graph, data: Data) -> Tensor:
        """Cross-entropy over the training nodes and the class nodes, each of its own class."""
        logits: Tensor = self.classifier(self.encode(graph)[0])
        train = data.train_mask.nonzero().squeeze(1)
        if not graph.layout.classes:
            return cross_entropy(logits[train], data.y[train])
        classes = torch.arange(class_count(data), device=logits.device)
        on_train = cross_entropy(logits[train], data.y[train])
        on_classes = cross_entropy(logits[graph.layout.rows("classes")], classes)
        weight = len(classes) / len(train)
        total = on_train + weight * on_classes
        return total if self.config.loss == "weighted" else total / (1 + weight)

    def regions(self, graph: Graph) -> list[PlannedRegion]:
        """How each region of its masks is computed; the same in every layer."""
        experts = self._sizes(graph).experts
        return [region for e in experts for region in plan_mask(e.mask, e.weights, e.shape)]

    def works(self, graph: Graph, data: Data, scheme: str) -> list[Work] | None:
        """What a training step and an evaluation hold and do."""
        return m3dphormer_work.works(self._sizes(graph), data, scheme)

    def _sizes(self, graph: Graph) -> m3dphormer_work.Network:
        layer = self.layers[0]
        assert isinstance(layer, Layer)
        pairs = zip(layer.experts, graph.masks, strict=True)
        return m3dphormer_work.Network(
            layout=graph.layout,
            width=self.config.hidden,
            layers=self.config.layers,
            classes=self.classifier.out_features,
            parameters=sum(weight.numel() for weight in self.parameters()),
            dropped=self.config.dropout > 0,
            skip=self.config.input == "skip",
            experts=[expert.sizes(mask) for expert, mask in pairs],  # type: ignore[operator]
        )


def _own_level_gates(layout: Layout, levels: list[masks.Level]) -> Tensor:
    """Gates of the virtual nodes when fixed: all weight on the experts of their own level."""
    home = {"clusters": "cluster", "classes": "global", "virtual": "global"}
    rows = []
    for role, level in home.items():
        share = torch.tensor([float(own == level) for own in levels])
        count = layout.size(role)  # type: ignore[arg-type]
        rows.append((share / share.sum().clamp(min=1)).expand(count, -1))
    return torch.cat(rows)
