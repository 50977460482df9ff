from __future__ import annotations

import m3dphormer as m3d
from m3dphormer.graph import edge_homophily


def test_digits_has_its_numbers_and_needs_no_network() -> None:
    data = m3d.load("digits")
    assert (data.num_nodes, data.num_features, len(data.label_names)) == (1797, 64, 10)
    assert data.source == "embedded (scikit-learn)"
    degree = data.edge_index[0].bincount()
    assert degree.min() >= 8  # the neighbours of a node, and those it is a neighbour of
    assert data.x.min() >= 0
    assert data.x.max() == 1
    assert edge_homophily(data) > 0.95
