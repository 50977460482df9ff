"""The user's own graph: files (csv, parquet, npz, pt) and objects in memory."""

from m3dphormer.graph.own.arrays import from_arrays
from m3dphormer.graph.own.files import load_path
from m3dphormer.graph.own.frames import from_frames, from_networkx
from m3dphormer.graph.own.pyg import from_data

__all__ = ["from_arrays", "from_data", "from_frames", "from_networkx", "load_path"]
