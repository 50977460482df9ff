"""Speed and memory of the attention schemes against each other and against PyG."""

from m3dphormer.experiments.bench.results import bench_tables, growth_slopes, save_bench
from m3dphormer.experiments.bench.suite import HEAPS, PARTS, THREADS, run_bench

__all__ = [
    "HEAPS",
    "PARTS",
    "THREADS",
    "bench_tables",
    "growth_slopes",
    "run_bench",
    "save_bench",
]
