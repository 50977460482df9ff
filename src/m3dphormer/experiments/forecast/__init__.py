"""The forecast against the truth: memory and time of real runs, each in a fresh process."""

from m3dphormer.experiments.forecast.suite import again, compare

__all__ = ["again", "compare"]
