"""The nine benchmarks of the paper: where their files are, how they are read, what they must be."""

from m3dphormer.graph.benchmarks.load import benchmark_source, load_benchmark
from m3dphormer.graph.benchmarks.table import BENCHMARKS

__all__ = ["BENCHMARKS", "benchmark_source", "load_benchmark"]
