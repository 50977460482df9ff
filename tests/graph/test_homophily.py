from __future__ import annotations

import torch
from torch_geometric.data import Data

from m3dphormer.graph import edge_homophily


def test_the_share_of_edges_inside_a_class_among_labelled_ends() -> None:
    path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    assert edge_homophily(Data(edge_index=path, y=torch.tensor([0, 0, 1, 1, -1]))) == 2 / 3
    assert edge_homophily(Data(edge_index=path[:, :0], y=torch.tensor([0]))) == 0
