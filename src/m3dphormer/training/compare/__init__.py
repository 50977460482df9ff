"""Several models on one graph under one protocol: runs, paired statistics, the paper's numbers."""

from m3dphormer.training.compare.suite import compare
from m3dphormer.training.compare.verdict import Comparison, comparison_table

__all__ = ["Comparison", "compare", "comparison_table"]
