"""Work that need not exist: exact rewrites of a layer, one file each."""

from m3dphormer.attention.structure.asked import Asked
from m3dphormer.attention.structure.choose import choose
from m3dphormer.attention.structure.forms import AdditiveWeights, DotWeights, GCNWeights, Weights
from m3dphormer.attention.structure.inputs import Features, features, plain_features, skip
from m3dphormer.attention.structure.layer import (
    Expert,
    Linear,
    attend_all,
    project,
    structured,
)
from m3dphormer.attention.structure.maps import Map
from m3dphormer.attention.structure.mix import Piece, drop_features, dropout, gather, mix
from m3dphormer.attention.structure.read import Norm
from m3dphormer.attention.structure.recompute import kept_layers, recomputed
from m3dphormer.attention.structure.take import take

__all__ = [
    "AdditiveWeights",
    "Asked",
    "DotWeights",
    "Expert",
    "Features",
    "GCNWeights",
    "Linear",
    "Map",
    "Norm",
    "Piece",
    "Weights",
    "attend_all",
    "choose",
    "drop_features",
    "dropout",
    "features",
    "gather",
    "kept_layers",
    "mix",
    "plain_features",
    "project",
    "recomputed",
    "skip",
    "structured",
    "take",
]
