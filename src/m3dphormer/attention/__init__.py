"""How attention over a mask is computed: one meaning, several schemes."""

from m3dphormer.attention import planner, structure
from m3dphormer.attention.attend import DEFAULT_SCHEME, SCHEMES, attend, attend_additive
from m3dphormer.attention.gcn import attend_gcn

__all__ = [
    "DEFAULT_SCHEME",
    "SCHEMES",
    "attend",
    "attend_additive",
    "attend_gcn",
    "planner",
    "structure",
]
