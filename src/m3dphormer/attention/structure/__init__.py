"""Work that need not exist: exact rewrites of a layer, one file each, each equal to the plain form."""

from m3dphormer.attention.structure.forms import AdditiveWeights, DotWeights
from m3dphormer.attention.structure.layer import Expert, attend_all, structured
from m3dphormer.attention.structure.mix import Piece, drop_features, mix
from m3dphormer.attention.structure.read import Norm

__all__ = [
    "AdditiveWeights",
    "DotWeights",
    "Expert",
    "Norm",
    "Piece",
    "attend_all",
    "drop_features",
    "mix",
    "structured",
]
