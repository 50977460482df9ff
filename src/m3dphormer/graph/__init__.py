"""What comes in: benchmarks, embedded graphs, your own files, splits, checks."""

from m3dphormer.graph.hierarchy import hierarchy
from m3dphormer.graph.homophily import edge_homophily
from m3dphormer.graph.load import content_hash, datasets, load
from m3dphormer.graph.own import from_arrays, from_data, from_frames, from_networkx
from m3dphormer.graph.raw import class_count
from m3dphormer.graph.splits import check_seeds

__all__ = [
    "check_seeds",
    "class_count",
    "content_hash",
    "datasets",
    "edge_homophily",
    "from_arrays",
    "from_data",
    "from_frames",
    "from_networkx",
    "hierarchy",
    "load",
]
