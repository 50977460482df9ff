"""A graph as M3Dphormer sees it: one mask an expert, and virtual nodes with features.

Row order everywhere: real nodes, cluster nodes, class nodes, plain virtual nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer import masks
from m3dphormer.attention import DEFAULT_SCHEME, structure
from m3dphormer.attention.dropout import Dropout
from m3dphormer.masks import Layout, Mask
from m3dphormer.masks.layout import ROLES
from m3dphormer.models.m3dphormer_chance import Chance
from m3dphormer.models.m3dphormer_config import M3DphormerConfig
from m3dphormer.models.m3dphormer_twins import Twins


@dataclass(frozen=True)
class Graph:
    """Features of all T rows and one mask an expert."""

    features: structure.Features  # a virtual node has the mean of its members' raw features
    layout: Layout
    masks: tuple[Mask, ...]
    train: Tensor  # [n], numbers of the training nodes
    labels: Tensor  # [N], of the training nodes, -1 elsewhere
    virtual_gates: Tensor  # [T - N, experts], used where virtual gates are fixed
    states: Tensor | None = None  # [layers, T - N, hidden], where virtual rows are constants
    twins: Twins | None = None  # where training nodes are left out of what they read

    @classmethod
    def of(cls, data: Data, config: M3DphormerConfig, cluster: Tensor | None) -> Graph:
        """Masks and virtual nodes; ``cluster``: of each node, [N], if an expert asks."""
        offered = {
            "clusters": cluster,
            "self_loops": config.cluster_self_loops,
            "class_nodes": config.class_nodes,
        }
        built = [masks.build_from(name, data, offered) for name in config.experts]
        layout = Layout(nodes=int(data.num_nodes))
        for mask in built:
            layout = layout | mask.layout

        x, groups, twins = data.x, [], None
        if layout.clusters and cluster is not None:
            groups.append((cluster.to(x.device), layout.clusters))
        if layout.classes:
            members = masks.class_members(data, config.class_nodes).to(x.device)
            groups.append((members, layout.classes))
            twins = Twins.of(members, layout) if config.leave_one_out else None
        if layout.virtual:
            everyone = torch.zeros(len(x), dtype=torch.long, device=x.device)
            groups += [(everyone, 1)] * layout.virtual
        fused = config.scheme == DEFAULT_SCHEME
        make = structure.features if fused else structure.plain_features
        return cls(
            features=make(x, groups),
            layout=layout,
            train=data.train_mask.nonzero().squeeze(1),
            labels=given_labels(data),
            masks=tuple(mask.widen(layout) for mask in built),
            virtual_gates=_own_level_gates(layout, config.levels).to(x.device),
            twins=twins,
        )

    @cached_property
    def asked(self) -> structure.Asked | None:
        """The rows that a loss reads; None: too many to be worth it."""
        return structure.Asked.of(self.train, self.layout)

    def shown_labels(self, chance: Chance) -> Tensor:
        """The training labels that are an input, [N]; -1: none."""
        hidden = chance.labels()
        return self.labels if hidden is None else torch.where(self._kept(hidden), self.labels, -1)

    def hidden_features(self, chance: Chance) -> Tensor | None:
        """The nodes without features; None: all have theirs."""
        hidden = chance.inputs()
        return None if hidden is None else (~self._kept(hidden)).nonzero().squeeze(1)

    def _kept(self, dropout: Dropout) -> Tensor:
        """Whether each real node is kept, [N]."""
        node = torch.arange(len(self.labels), device=self.labels.device)
        return dropout.scale(node, node, heads=1).squeeze(1) > 0

    def without_twins(self) -> Graph:
        """The same, for evaluation."""
        return self if self.twins is None else replace(self, twins=None)

    def fixed_gates(self) -> Tensor:
        """Gates of all rows after the real ones, where they are fixed; a twin has its origin's."""
        if self.twins is None:
            return self.virtual_gates
        origin = self.virtual_gates[self.twins.row - self.layout.nodes]
        return torch.cat([self.virtual_gates, origin])

    def entering(self, h: Tensor, layer: int) -> Tensor:
        """What a layer reads, [T, hidden]: the state, or its real rows above the constants."""
        return h if self.states is None else torch.cat([h[: self.layout.nodes], self.states[layer]])

    def virtual_rows(self, h: Tensor) -> dict[str, Tensor]:
        """The virtual rows of states [layers, T, hidden], by role."""
        layout = self.layout
        return {role: h[:, layout.rows(role)] for role in ROLES[1:] if layout.size(role)}

    def with_constants(self, states: Mapping[str, Tensor]) -> Graph:
        """The same where every layer reads the virtual rows from ``virtual_rows``."""
        fixed = [states[role] for role in ROLES[1:] if self.layout.size(role)]
        return replace(self, states=torch.cat(fixed, dim=1) if fixed else None)


def given_labels(data: Data) -> Tensor:
    """The labels of the training nodes, [N], -1 elsewhere; ``data.shown`` where there is one."""
    shown: Tensor = data.shown if "shown" in data else torch.where(data.train_mask, data.y, -1)
    return shown


def _own_level_gates(layout: Layout, levels: tuple[masks.Level, ...]) -> Tensor:
    """Gates of the virtual nodes when fixed: all weight on the experts of their own level."""
    home = {"clusters": "cluster", "classes": "global", "virtual": "global"}
    rows = []
    for role, level in home.items():
        share = torch.tensor([float(own == level) for own in levels])
        count = layout.size(role)  # type: ignore[arg-type]
        rows.append((share / share.sum().clamp(min=1)).expand(count, -1))
    return torch.cat(rows)
