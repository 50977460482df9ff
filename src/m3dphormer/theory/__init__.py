"""Theorem 3.1 and what follows from it: bounds, audit of a graph, advice, a score that can fail."""

from m3dphormer.theory.audit import Audit, audit, audit_dataset
from m3dphormer.theory.bounds import bounds, in_domain, sweep
from m3dphormer.theory.estimate import Spread, estimate_spread
from m3dphormer.theory.hops import Hop, consistency_by_hop
from m3dphormer.theory.majority import majority_wins
from m3dphormer.theory.scenarios import SCENARIOS
from m3dphormer.theory.theorem import Field, Normal, class_node, unequal
from m3dphormer.theory.two_layers import TwoLayers, two_layers
from m3dphormer.theory.vote import Vote, vote

__all__ = [
    "SCENARIOS",
    "Audit",
    "Field",
    "Hop",
    "Normal",
    "Spread",
    "TwoLayers",
    "Vote",
    "audit",
    "audit_dataset",
    "bounds",
    "class_node",
    "consistency_by_hop",
    "estimate_spread",
    "in_domain",
    "majority_wins",
    "sweep",
    "two_layers",
    "unequal",
    "vote",
]
