"""M3Dphormer: three masked-attention experts under bi-level routing (the paper's section 4).

The network, top to bottom: input, layers, classifier, loss. A layer (Eq. 4 and 5), an expert, the
settings, the graph as it sees it, dropout and ``leave_one_out`` are in the files beside this one.
Row order everywhere: real nodes, cluster nodes, class nodes.
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
from m3dphormer.attention.planner import PlannedRegion, Work, plan_mask
from m3dphormer.graph import class_count
from m3dphormer.models import m3dphormer_work
from m3dphormer.models.base import Attention, Model
from m3dphormer.models.m3dphormer_chance import Chance
from m3dphormer.models.m3dphormer_config import M3DphormerConfig
from m3dphormer.models.m3dphormer_graph import Graph, given_labels
from m3dphormer.models.m3dphormer_layer import Layer
from m3dphormer.models.registry import register_model


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
