"""Work that need not exist: exact rewrites of a layer, one file each."""

from m3dphormer.attention.structure.forms import AdditiveWeights, DotWeights, GCNWeights, Weights
from m3dphormer.attention.structure.inputs import Features, features, plain_features, skip
from m3dphormer.attention.structure.layer import Expert, attend_all, structured
from m3dphormer.attention.structure.mix import Piece, drop_features, gather, mix
from m3dphormer.attention.structure.read import Norm
from m3dphormer.attention.structure.recompute import kept_layers, recomputed

__all__ = [
    "AdditiveWeights",
    "DotWeights",
    "Expert",
    "Features",
    "GCNWeights",
    "Norm",
    "Piece",
    "Weights",
    "attend_all",
    "drop_features",
    "features",
    "gather",
    "kept_layers",
    "mix",
    "plain_features",
    "recomputed",
    "skip",
    "structured",
]
