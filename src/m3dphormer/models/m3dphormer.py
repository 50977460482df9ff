"""M3Dphormer: three masked-attention experts under bi-level routing (the paper's section 4).

Reads top to bottom: the router, a layer (Eq. 4), the network. Its settings, the graph as it sees
it, an expert, dropout and ``leave_one_out`` are in the files beside this one. Row order everywhere:
real nodes, cluster nodes, class nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from m3dphormer import masks
from m3dphormer.attention import structure
from m3dphormer.attention.dropout import Dropout, among
from m3dphormer.attention.planner import PlannedRegion, Work, plan_mask
from m3dphormer.graph import class_count
from m3dphormer.models import m3dphormer_work
from m3dphormer.models.base import Attention, Model
from m3dphormer.models.m3dphormer_chance import Chance
from m3dphormer.models.m3dphormer_config import M3DphormerConfig
from m3dphormer.models.m3dphormer_expert import Expert
from m3dphormer.models.m3dphormer_graph import Graph, given_labels
from m3dphormer.models.m3dphormer_twins import batch_norm
from m3dphormer.models.registry import register_model


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


class FeedForward(nn.Module):
    """H + dropout(W2 ReLU(W1 Norm(H))), d -> 4d -> d; an ablation, the paper's layer has none."""

    def __init__(self, config: M3DphormerConfig) -> None:
        super().__init__()
        width = config.hidden
        own = config.norm == "rms" or config.residual == "inside"  # else the layer's follows
        self.norm = RMSNorm(width, bias=config.norm_bias) if own else nn.Identity()
        self.up = nn.Linear(width, 4 * width, bias=config.bias)
        self.down = nn.Linear(4 * width, width, bias=config.bias)

    def forward(self, h: Tensor, dropout: Dropout | None) -> Tensor:
        """[T, hidden]."""
        return h + structure.drop_features(self.down(self.up(self.norm(h)).relu()), dropout)


class Layer(nn.Module):
    """H^l = dropout(ReLU(BiMoE(Norm(H), masks))) + H W_res (Eq. 4), or with the norm at the end.

    With the residual inside: dropout(ReLU(BiMoE(Norm(H), masks) + H W_res)), or with the norm of
    that sum.
    """

    def __init__(self, config: M3DphormerConfig) -> None:
        super().__init__()
        self.config = config
        self.pre = config.norm == "rms"
        width = config.hidden
        self.norm = RMSNorm(width, bias=config.norm_bias) if self.pre else nn.BatchNorm1d(width)
        self.router = Router(config)
        self.experts = nn.ModuleList(Expert(config, name) for name in config.experts)
        self.residual = nn.Linear(width, width, bias=config.bias)
        self.ffn = FeedForward(config) if config.ffn else None

    def share(self, other: Layer) -> None:
        """Have all but the norm in common with another layer."""
        for name in ("router", "experts", "residual", "ffn"):
            delattr(self, name)
            self.__dict__[name] = getattr(other, name)  # no child: its weights are saved once

    def forward(
        self,
        h: Tensor,
        graph: Graph,
        chance: Chance,
        at: int,
        classifier: nn.Linear | None = None,
        asked: structure.Asked | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The next state [T, hidden], the gates [T, experts], and what W of the classifier makes of
        this state, [T, C], where it is computed by its structure; of the asked rows alone.
        """
        given = (h, graph, chance, at, classifier, asked)
        if self._must_recompute(h, graph, at):
            out, gates, seen = structure.recomputed(self._inside, *given)
        else:
            out, gates, seen = self._inside(*given)
        if isinstance(self.norm, nn.BatchNorm1d):
            out = batch_norm(self.norm, out, graph.layout.total)
        if self.config.residual == "inside":
            rows = None if asked is None else asked.rows
            out = structure.drop_features(out.relu(), among(chance.features(at), rows))
            out = out if self.ffn is None else self.ffn(out, among(chance.ffn(at), rows))
        return out, gates, seen

    def _inside(
        self,
        h: Tensor,
        graph: Graph,
        chance: Chance,
        at: int,
        classifier: nn.Linear | None,
        asked: structure.Asked | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        drops = [chance.attention(at, i) for i in range(len(self.experts))]
        layout, rows = (graph.layout, None) if asked is None else (asked.layout, asked.rows)
        fused = self._fused(h, graph)
        if fused:
            given = self._by_structure(h, graph, drops, classifier, asked)
            logits, answers, (residual, *others) = given
            seen = others[0] if others else None
        else:
            seen = None
            z = self.norm(h) if self.pre else h
            logits, residual = self.router.logits(z), self.residual(h)
            three = zip(self.experts, graph.masks, drops, strict=True)
            answers = [
                structure.Piece(i, 0, expert(z, mask, drop, graph.twins))
                for i, (expert, mask, drop) in enumerate(three)
            ]
        gates = self.router(logits, residual)
        if self.config.virtual_gates == "fixed":
            gates = torch.cat([gates[: layout.nodes], graph.fixed_gates()])
        if self.config.residual == "inside":
            return structure.gather(answers, gates, residual, fused=fused), gates, seen
        drop = among(chance.features(at), rows)
        out = structure.mix(answers, gates, residual, drop, fused=fused)
        return (
            (out if self.ffn is None else self.ffn(out, among(chance.ffn(at), rows))),
            gates,
            seen,
        )

    def attention(self, h: Tensor, graph: Graph, row: int) -> list[Attention]:
        """Whom a row attends to, by expert."""
        z, found = self.norm(h) if self.pre else h, []
        for name, expert, mask in zip(self.config.experts, self.experts, graph.masks, strict=True):
            keys, weights = expert.attention(z, mask, row)  # type: ignore[operator]
            places = [graph.layout.role_of(key) for key in keys.tolist()]
            several = {"classes": self.config.class_nodes}
            numbers = torch.tensor([number // several.get(role, 1) for role, number in places])
            found.append(Attention(name, tuple(role for role, _ in places), numbers, weights))
        return found

    def _fused(self, h: Tensor, graph: Graph) -> bool:
        """Whether it is computed by its structure, which knows no twins."""
        return graph.twins is None and structure.structured(self.config.scheme, h)

    def _must_recompute(self, h: Tensor, graph: Graph, at: int) -> bool:
        """The last layers keep their insides as long as there is room."""
        return self._fused(h, graph) and at < self.config.layers - structure.kept_layers(h)

    def _by_structure(
        self,
        h: Tensor,
        graph: Graph,
        drops: list[Dropout | None],
        classifier: nn.Linear | None,
        asked: structure.Asked | None,
    ) -> tuple[Tensor | None, list[structure.Piece], list[Tensor]]:
        """The same three, without the work that the masks of the paper make needless."""
        readers: list[structure.Linear] = [(self.residual.weight, self.residual.bias)]
        if classifier is not None:
            readers.append((classifier.weight, None))
        experts = [
            structure.Expert(expert.weights(), mask, drop)  # type: ignore[operator]
            for expert, mask, drop in zip(self.experts, graph.masks, drops, strict=True)
        ]
        norm = None
        if isinstance(self.norm, RMSNorm):
            norm = structure.Norm(self.norm.weight, self.norm.bias, self.norm.eps)
        return structure.attend_all(
            h,
            graph.layout,
            experts,
            norm=norm,
            gate=self.router.gate,
            readers=readers,
            asked=asked,
        )


@dataclass(frozen=True)
class Walk:
    """What a graph becomes on its way through the layers.

    Args:
        states: H^0 ... H^L, each [T, hidden]; where rows were asked for, H^L is of these alone.
        gates: Of each layer, [T, experts] or of the asked rows.
        seen: H^l W of the classifier for l < L, each [T, C], where the layers have given it: the
            classifier is linear, so the sum of all states need not be made.
    """

    states: list[Tensor]
    gates: list[Tensor]
    seen: list[Tensor]


@register_model("m3dphormer")
class M3Dphormer(Model):
    """The network: input projection, L layers, a linear classifier."""

    config_type = M3DphormerConfig

    def __init__(self, features: int, classes: int, config: M3DphormerConfig) -> None:
        super().__init__(features, classes, config)
        self.config = config
        self.input = nn.Linear(features, config.hidden, bias=config.bias)
        layers = [Layer(config) for _ in range(config.layers)]
        if config.shared:
            for layer in layers[1:]:
                layer.share(layers[0])
        self.layers = nn.ModuleList(layers)
        self.classifier = nn.Linear(config.hidden, classes, bias=config.bias)
        self.class_states: nn.Parameter | None = None
        if config.class_features == "learned":
            start = torch.randn(classes * config.class_nodes, config.hidden)
            self.class_states = nn.Parameter(start / config.hidden**0.5)
        self.label_states: nn.Parameter | None = None
        if config.shown_labels:
            start = torch.randn(classes, config.hidden)
            self.label_states = nn.Parameter(start / config.hidden**0.5)
        distinct = len(set(config.levels)) == len(config.levels)
        self.gate_names = config.levels if distinct else config.experts

    def partition(self, data: Data) -> Tensor | None:
        """The cluster of each node, [N], if an expert is of the cluster level.

        A partition ``data.cluster`` that comes with the graph is taken as it is.
        """
        if "cluster" not in self.config.levels:
            return None
        return masks.assign(data, data.cluster if "cluster" in data else self.config.clusters)

    def extras(self, data: Data) -> dict[str, Tensor]:
        """The labels that are an input, [N], -1 for none: those of the training nodes."""
        return {"shown": given_labels(data)} if self.config.shown_labels else {}

    def prepare(self, data: Data) -> Graph:
        """Partition, masks and features of the virtual nodes."""
        return Graph.of(data, self.config, self.partition(data))

    def virtual_states(self, graph: Graph) -> dict[str, Tensor]:
        """What each layer reads of cluster, class and plain virtual nodes."""
        return graph.virtual_rows(torch.stack(self.states(graph).states[:-1]))

    def prepare_unseen(self, data: Data, states: Mapping[str, Tensor]) -> Graph:
        """The graph with its virtual rows as they were in training."""
        return self.prepare(data).with_constants(states)

    def _chance(self) -> Chance:
        """What one forward pass drops."""
        seed = int(torch.randint(2**62, ())) if self.training else 0
        return Chance(seed, self.config, self.training)

    def states(
        self, graph: Graph, chance: Chance | None = None, asked: structure.Asked | None = None
    ) -> Walk:
        """All layers, one after the other; the last one for the asked rows alone."""
        chance = chance or self._chance()
        graph = graph if self.training else graph.without_twins()
        h = self._project(graph, chance)
        if self.config.input == "skip":
            fused = structure.structured(self.config.scheme, h)
            h = structure.skip(h, chance.features(-1), fused=fused)
        states, gates, seen = [], [], []
        classifier = self.classifier if self.config.readout == "sum" else None
        for i, layer in enumerate(self.layers):
            states.append(graph.entering(h, i))
            only = asked if i == len(self.layers) - 1 else None
            h, gate, logits = layer(states[i], graph, chance, i, classifier, only)
            gates.append(gate)
            if logits is not None:
                seen.append(logits)
        return Walk([*states, h], gates, seen)

    def _project(self, graph: Graph, chance: Chance) -> Tensor:
        """X W + b, a learned state in place of it for class nodes, and the twins after them all.

        A node whose features are hidden has b alone; one that shows its label has the label's state
        added to its own.
        """
        h = graph.features.project(self.input)
        if self.class_states is not None:
            rows = graph.layout.rows("classes")
            h = torch.cat([h[: rows.start], self.class_states, h[rows.stop :]])
        if graph.twins is not None:
            learned = self.class_states is not None
            h = torch.cat([h, graph.twins.start(h, self.input.bias, learned=learned)])
        hidden = graph.hidden_features(chance)
        if hidden is not None:
            bias = h.new_zeros(h.shape[1]) if self.input.bias is None else self.input.bias
            h = h.index_copy(0, hidden, bias.expand(len(hidden), -1))
        if self.label_states is not None:
            labels = graph.shown_labels(chance)
            showing = (labels >= 0).nonzero().squeeze(1)
            h = h.index_add(0, showing, self.label_states[labels[showing]])
        return h

    def logits(
        self, graph: Graph, chance: Chance | None = None, asked: structure.Asked | None = None
    ) -> Tensor:
        """What the classifier makes of all rows, or of the asked ones, [T, C]."""
        walk = self.states(graph, chance, asked)
        *before, read = walk.states
        if walk.seen:
            *earlier, last = walk.seen  # the last layer's is of the asked rows already
            last = last + structure.project(read, self.classifier.weight, self.classifier.bias)
            if asked is not None and earlier:
                earlier = [structure.take(sum(earlier[1:], start=earlier[0]), asked.rows)]
            return sum(earlier, start=last)
        if self.config.readout == "sum":
            read = read + before[0]
            for state in before[1:]:
                read += state
        logits: Tensor = self.classifier(read[: graph.layout.total])
        return logits

    def forward(self, graph: Graph) -> Tensor:
        """Logits of the real nodes, [N, C]."""
        return self.logits(graph)[: graph.layout.nodes]

    def gates(self, graph: Graph) -> Tensor:
        """How much of each expert every real node takes, [layers, N, experts]."""
        return torch.stack([gates[: graph.layout.nodes] for gates in self.states(graph).gates])

    def attention(self, graph: Graph, row: int) -> list[list[Attention]]:
        """Whom a row attends to, by layer and expert."""
        states = self.states(graph).states
        return [
            layer.attention(h, graph, row)  # type: ignore[operator]
            for layer, h in zip(self.layers, states[:-1], strict=True)
        ]

    def loss(self, graph: Graph, data: Data) -> Tensor:
        """Cross-entropy over the training nodes and the class nodes, each of its own class."""
        chance, train = self._chance(), graph.train
        asked = graph.asked if self._asks(graph) else None
        layout = graph.layout if asked is None else asked.layout
        logits = self.logits(graph, chance, asked)
        on_train, labels = logits[train if asked is None else slice(len(train))], data.y[train]
        if self.label_states is not None:
            hidden = graph.shown_labels(chance)[train] < 0
            if bool(hidden.any()):
                on_train, labels = on_train[hidden], labels[hidden]
        if not layout.classes:
            return cross_entropy(on_train, labels)
        classes = torch.arange(class_count(data), device=logits.device)
        classes = classes.repeat_interleave(self.config.class_nodes)
        on_classes = cross_entropy(logits[layout.rows("classes")], classes)
        weight = len(classes) / len(labels)
        total = cross_entropy(on_train, labels) + weight * on_classes
        return total if self.config.loss == "weighted" else total / (1 + weight)

    def _asks(self, graph: Graph) -> bool:
        """Whether the last layer can do with the rows that the loss reads: BatchNorm reads all."""
        fused = structure.structured(self.config.scheme, self.classifier.weight)
        return fused and self.config.norm == "rms" and graph.twins is None and graph.states is None

    def regions(self, graph: Graph) -> list[PlannedRegion]:
        """How each region of its masks is computed; the same in every layer."""
        experts = self._sizes(graph).experts
        regions = [region for e in experts for region in plan_mask(e.mask, e.weights, e.shape)]
        if graph.twins is None:
            return regions
        reason = "leave_one_out: the structure of a layer knows no twins"
        return [replace(r, fused="plain", why={**r.why, "fused": reason}) for r in regions]

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
            ffn=self.config.ffn,
            inside=self.config.residual == "inside",
            twins=0 if graph.twins is None else len(graph.twins.node),
            asked=graph.asked if self._asks(graph) else None,
            experts=[expert.sizes(mask) for expert, mask in pairs],  # type: ignore[operator]
        )
