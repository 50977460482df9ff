"""Audit of a graph: what each mask offers its nodes, by the paper's principle and its theorem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from m3dphormer import masks
from m3dphormer.errors import UserError, notice
from m3dphormer.graph import class_count, load
from m3dphormer.masks import Mask
from m3dphormer.masks.mask import LEVELS
from m3dphormer.masks.statistics import Reach, known_labels, reach_keys
from m3dphormer.theory.advice import Means, advise
from m3dphormer.theory.audit_mask import MaskAudit, audit_mask, own_share
from m3dphormer.theory.clusters import choose_clusters
from m3dphormer.theory.estimate import estimate_spread
from m3dphormer.theory.scenarios import STANDS_FOR, name_levels, scenario_shares, smoothed
from m3dphormer.theory.vote import Vote, vote

VOTED_PAIRS = 500_000_000  # a vote over more pairs would take minutes


@dataclass(frozen=True)
class Audit:
    """What ``m3dphormer audit`` tells; ``level`` and ``votes`` hold the results node by node.

    Args:
        labels: "training" or "all": the labels that were counted.
        known: How many they are.
        chance: 1/|Y|.
        levels: Share of the nodes of known class that should take each level.
        scenarios: Share in each of the paper's five scenarios.
        clusters: Worth of every number of clusters that was tried.
        level: [N] the level that each node should take, by its number in ``LEVELS``; -1 where its
            class is unknown.
        votes: The vote of each level's mask, where there are features.
    """

    dataset: str
    nodes: int
    labels: str
    known: int
    chance: float
    masks: dict[str, MaskAudit]
    levels: dict[str, float]
    scenarios: dict[str, float | None]
    clusters: dict[int, float]
    advice: list[str]
    level: Tensor = field(repr=False)
    votes: dict[str, Vote] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """All but the results node by node, ready for JSON."""
        told = {name: value for name, value in vars(self).items() if name not in ("level", "votes")}
        return {**told, "masks": {name: vars(one) for name, one in self.masks.items()}}


def load_for_audit(dataset: str, root: str | None = None) -> Data:
    """Load a graph; a benchmark whose features are missing comes without, and a notice says so."""
    try:
        return load(dataset, root=root)
    except UserError as error:
        try:
            data = load(dataset, root=root, features=False)
        except UserError:
            raise error from None
        notice(f"{data.name}: no features; bounds, votes and scenario 5 are left out.")
        return data


def audit(data: Data, *, clusters: int | str | Tensor = "auto", all_labels: bool = False) -> Audit:
    """Count what every registered mask offers, name the level for each node, and advise.

    Args:
        data: A graph with labels and a split; features are optional.
        clusters: How many clusters the cluster masks have, or the cluster of each node; "auto":
            the number that complements the other levels best.
        all_labels: Count every label instead of those of training nodes alone.
    """
    classes = class_count(data)
    y = known_labels(masks.Layout(nodes=int(data.num_nodes)), data, all_labels)
    known = y >= 0
    if not bool(known.any()):
        raise UserError("No label is known to the audit; give the graph training labels.")

    reached = {name: _reach(masks.build(name, data), y) for name in ("l2", "g1")}
    scores = {name: smoothed(reach, classes) for name, reach in reached.items()}
    choice = choose_clusters(data, y, classes, clusters, scores)
    built = {
        name: masks.build_from(name, data, {"clusters": choice.cluster}) for name in masks.names()
    }
    reached |= {name: _reach(mask, y) for name, mask in built.items() if name not in reached}
    consistency = {level: smoothed(reached[name], classes) for level, name in STANDS_FOR.items()}
    level = name_levels(consistency).where(known, -1)
    levels: dict[str, float] = {
        name: float((level[known] == i).double().mean()) for i, name in enumerate(LEVELS)
    }

    spread = None if data.x is None else estimate_spread(data.x.cpu(), y, classes)
    alone = None if spread is None else spread.alone
    votes = _votes(built, data)
    homophily = own_share(reached["l2"], y)
    return Audit(
        dataset=data.name if "name" in data else "graph",
        nodes=int(data.num_nodes),
        labels="all" if all_labels else "training",
        known=int(known.sum()),
        chance=1 / classes,
        masks={
            name: audit_mask(
                mask, reached[name], y, homophily, spread, 1 / classes, _told(votes, name, data)
            )
            for name, mask in built.items()
        },
        levels=levels,
        scenarios=scenario_shares(consistency, y, choice.cluster, classes, alone),
        clusters=choice.worth,
        advice=advise(
            consistency,
            known,
            levels,
            choice.worth,
            {name: _means(reached[name], y) for name in ("l1", "l2")},
        ),
        level=level,
        votes=votes,
    )


def _reach(mask: Mask, y: Tensor) -> Reach:
    return reach_keys(mask.regions, mask.layout, y)


def _means(reached: Reach, y: Tensor) -> Means:
    return Means(float(reached.nodes.double().mean()), float(own_share(reached, y).nanmean()))


def _votes(built: Mapping[str, Mask], data: Data) -> dict[str, Vote]:
    if data.x is None:
        return {}
    chosen = {name: built[name] for name in STANDS_FOR.values()}
    return {name: vote(mask, data) for name, mask in chosen.items() if mask.nnz <= VOTED_PAIRS}


def _told(votes: Mapping[str, Vote], name: str, data: Data) -> dict[str, float] | None:
    """Temperature of a vote, and its accuracy on the validation nodes."""
    if name not in votes:
        return None
    chosen = data.val_mask.cpu() & (data.y.cpu() >= 0)
    right = votes[name].shares.argmax(dim=1) == data.y.cpu()
    return {"tau": votes[name].tau, "accuracy": float(right[chosen].double().mean())}
