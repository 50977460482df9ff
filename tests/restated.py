"""Plain dense forms that the restatements of several networks share."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from m3dphormer.models.convolutions import GCNLayer
from m3dphormer.models.gcn_branch import GCNBranch, ResidualBranch

M = TypeVar("M", bound=nn.Module)


def away_from_the_start(model: M) -> M:
    """Move all weights and running means from the zeros and ones that hide mistakes."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for part in model.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
    return model.eval()


def dense_adjacency(data: Data) -> Tensor:
    """D^-1/2 (A + I) D^-1/2."""
    n = data.num_nodes
    a = torch.eye(n, dtype=torch.double)
    source, target = data.edge_index
    a[source, target] = a[target, source] = 1
    root = a.sum(1).rsqrt()
    return root[:, None] * a * root


def softmax_attention(
    q: Tensor, k: Tensor, v: Tensor, heads: int, seen: Tensor | None = None
) -> Tensor:
    """Head by head, [rows, hidden]; ``seen`` [rows, keys] says who may attend to whom."""
    width, out = q.shape[1] // heads, []
    for h in range(heads):
        at = slice(width * h, width * (h + 1))
        scores = q[:, at] @ k[:, at].T / math.sqrt(width)
        if seen is not None:
            scores = scores.masked_fill(~seen, -torch.inf)
        out.append(scores.softmax(1) @ v[:, at])
    return torch.cat(out, 1)


def convolve(layer: GCNLayer, x: Tensor, data: Data) -> Tensor:
    """A (X W) + b."""
    return dense_adjacency(data) @ (x @ layer.public.lin.weight.T) + layer.public.bias


def gcn(branch: nn.Module, data: Data) -> Tensor:
    """In evaluation mode: norm and ReLU between the convolutions, or around a stem."""
    if isinstance(branch, nn.Sequential):
        return branch[1](gcn(branch[0], data))
    if isinstance(branch, ResidualBranch):
        stem = x = branch.norms[0](branch.stem(data.x)).relu()
        for layer, norm in zip(branch.layers, branch.norms[1:], strict=True):
            x = stem + norm(convolve(layer, x, data)).relu()
        return x
    assert isinstance(branch, GCNBranch)
    *hidden, last = branch.layers
    x = data.x
    for layer, norm in zip(hidden, branch.norms, strict=True):
        x = norm(convolve(layer, x, data)).relu()
    return convolve(last, x, data)
