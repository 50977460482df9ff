"""The normalised adjacency that graph convolutions multiply with."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from m3dphormer.masks.adjacency import edges


def normalised_adjacency(data: Data) -> Tensor:
    """D^-1/2 (A + I) D^-1/2, [N, N] in CSR form, for ``GCNConv(..., normalize=False)``."""
    n, x = int(data.num_nodes), data.x
    index, weight = gcn_norm(edges(data), num_nodes=n, dtype=x.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse tensors a beta
        return torch.sparse_coo_tensor(index, weight, (n, n)).to_sparse_csr().to(x.device)
