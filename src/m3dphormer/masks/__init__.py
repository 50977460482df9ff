"""Who may attend to whom: one file a mask, partitions, layouts and regions."""

from m3dphormer.masks.c4 import c4
from m3dphormer.masks.g3 import g3
from m3dphormer.masks.l2 import l2
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.mask import CSR, Level, Mask
from m3dphormer.masks.partition import assign, partition
from m3dphormer.masks.registry import build, level_of, names, register_mask

__all__ = [
    "CSR",
    "Layout",
    "Level",
    "Mask",
    "assign",
    "build",
    "c4",
    "g3",
    "l2",
    "level_of",
    "names",
    "partition",
    "register_mask",
]
