"""A graph as graph convolutions see it: features, and one step of D^-1/2 (A + I) D^-1/2."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch_geometric.data import Data

from m3dphormer.attention import structure
from m3dphormer.masks.adjacency import with_self_loops


@dataclass(frozen=True)
class ConvGraph:
    """Features [N, F], sparse where that is faster, and the normalised adjacency [N, N] in CSR."""

    features: structure.Features
    adjacency: Tensor

    def step(self, h: Tensor) -> Tensor:
        """Every node's weighted sum over itself and its neighbours, [N, d]."""
        out: Tensor = _Step.apply(h, self.adjacency)  # type: ignore[no-untyped-call]
        return out


def conv_graph(data: Data) -> ConvGraph:
    """With a loop at every node, which counts in its degree."""
    indptr, indices = with_self_loops(data)
    degree = indptr.diff()
    scale = degree.to(data.x.dtype).rsqrt()
    values = scale.repeat_interleave(degree) * scale[indices]
    size = (len(degree), len(degree))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse tensors a beta
        adjacency = torch.sparse_csr_tensor(indptr, indices, values, size)
    return ConvGraph(structure.features(data.x, ()), adjacency.to(data.x.device))


def project(linear: nn.Module, h: Tensor | structure.Features) -> Tensor:
    """A linear map of a state, or of the features that the first layer reads."""
    if isinstance(h, structure.Features):
        assert isinstance(linear, nn.Linear)
        return h.project(linear)
    out: Tensor = linear(h)
    return out


class _Step(torch.autograd.Function):
    """A product with a symmetric matrix: backward without the transpose that torch would make."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, adjacency: Tensor) -> Tensor:
        ctx.save_for_backward(adjacency)
        return adjacency @ h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (adjacency,) = ctx.saved_tensors
        return adjacency @ gradient, None
