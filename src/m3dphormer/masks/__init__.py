"""Who may attend to whom: one file a mask, algebra, statistics, pictures, partitions."""

from m3dphormer.masks.c1 import c1
from m3dphormer.masks.c2 import c2
from m3dphormer.masks.c3 import c3
from m3dphormer.masks.c4 import c4
from m3dphormer.masks.g1 import g1
from m3dphormer.masks.g2 import g2
from m3dphormer.masks.g3 import class_members, g3
from m3dphormer.masks.l1 import l1
from m3dphormer.masks.l2 import l2
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.make import from_edges, from_rule
from m3dphormer.masks.mask import CSR, Level, Mask
from m3dphormer.masks.partition import assign, partition
from m3dphormer.masks.picture import gallery
from m3dphormer.masks.registry import build, build_from, level_of, names, register_mask
from m3dphormer.masks.table import TRANSFORMERS, of

__all__ = [
    "CSR",
    "TRANSFORMERS",
    "Layout",
    "Level",
    "Mask",
    "assign",
    "build",
    "build_from",
    "c1",
    "c2",
    "c3",
    "c4",
    "class_members",
    "from_edges",
    "from_rule",
    "g1",
    "g2",
    "g3",
    "gallery",
    "l1",
    "l2",
    "level_of",
    "names",
    "of",
    "partition",
    "register_mask",
]
