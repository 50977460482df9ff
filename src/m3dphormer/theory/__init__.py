"""Theorem 3.1 and what follows from it: bounds, audit of a graph, advice, a score that can fail."""

from m3dphormer.theory.vote import Vote, vote

__all__ = ["Vote", "vote"]
