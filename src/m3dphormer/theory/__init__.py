"""Theorem 3.1 and what follows from it: bounds, audit of a graph, advice, a score that can fail."""

from m3dphormer.theory import cost
from m3dphormer.theory.audit import Audit, audit, load_for_audit
from m3dphormer.theory.bounds import bounds, in_domain, sweep
from m3dphormer.theory.estimate import Spread, estimate_spread
from m3dphormer.theory.hops import Hop, consistency_by_hop
from m3dphormer.theory.majority import majority_wins
from m3dphormer.theory.tables import audit_tables, node_table
from m3dphormer.theory.theorem import Field, Normal, class_node, unequal
from m3dphormer.theory.two_layers import TwoLayers, two_layers
from m3dphormer.theory.vote import Vote, vote

__all__ = [
    "Audit",
    "Field",
    "Hop",
    "Normal",
    "Spread",
    "TwoLayers",
    "Vote",
    "audit",
    "audit_tables",
    "bounds",
    "class_node",
    "consistency_by_hop",
    "cost",
    "estimate_spread",
    "in_domain",
    "load_for_audit",
    "majority_wins",
    "node_table",
    "sweep",
    "two_layers",
    "unequal",
    "vote",
]
