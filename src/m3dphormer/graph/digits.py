"""``digits``: scikit-learn's 1,797 handwritten digits on their 8-nearest-neighbour graph."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from m3dphormer.graph.raw import RawGraph

NEIGHBOURS = 8
PIXEL_MAX = 16.0


def digits() -> RawGraph:
    """Nodes are 8 x 8 images, features their 64 pixels in [0, 1], classes the ten digits."""
    images, labels = load_digits(return_X_y=True)
    links = kneighbors_graph(images, NEIGHBOURS).tocoo()
    return RawGraph(
        name="digits",
        edges=np.stack([links.row, links.col]).astype(np.int64),
        x=images / PIXEL_MAX,
        y=labels.astype(np.int64),
        label_names=[str(digit) for digit in range(10)],
        source="embedded (scikit-learn)",
    )
