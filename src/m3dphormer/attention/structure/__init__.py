"""Work that need not exist: exact rewrites of a layer, one file each, each equal to the plain form."""

from m3dphormer.attention.structure.forms import AdditiveWeights, DotWeights
from m3dphormer.attention.structure.inputs import Features, features, plain_features, skip
from m3dphormer.attention.structure.layer import Expert, attend_all, structured
from m3dphormer.attention.structure.mix import Piece, mix
from m3dphormer.attention.structure.read import Norm

__all__ = [
    "AdditiveWeights",
    "DotWeights",
    "Expert",
    "Features",
    "Norm",
    "Piece",
    "attend_all",
    "features",
    "mix",
    "plain_features",
    "skip",
    "structured",
]
