"""A score of each node under a mask that can be wrong: the vote of its training keys.

Training key v of node u (never u itself) votes for its own class with weight softmax(τ cos(x_u,
x_v)). The share of u's true class *explains*: was this level hard for u? The largest share needs
no label of u and *predicts*: how far can this level be trusted here?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph import class_count
from m3dphormer.masks import Mask
from m3dphormer.masks.regions import Block, Region, chunks

TEMPERATURES = (0.0, 5.0, 20.0)
CHUNK = 2**22  # numbers in the largest temporary
Part = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Vote:
    """How the training keys of every real node vote.

    Args:
        tau: The temperature that did best on the validation nodes.
        shares: [N, C], rows that sum to 1; 1/C each for a node without a training key.
    """

    tau: float
    shares: Tensor

    def explains(self, y: Tensor) -> Tensor:
        """Share of each node's true class, [N]; NaN for a node of unknown class."""
        own = self.shares.gather(1, y.clamp(min=0).unsqueeze(1)).squeeze(1)
        return own.where(y >= 0, torch.nan)

    @property
    def predicts(self) -> Tensor:
        """The largest share, [N]; no label of the node itself is used."""
        return self.shares.amax(dim=1)

    def error(self, y: Tensor, nodes: Tensor) -> float:
        """Brier score on some nodes: mean squared distance of the shares from the truth."""
        truth = one_hot(y[nodes], self.shares.shape[1])
        return float((self.shares[nodes] - truth).square().sum(dim=1).mean())


def vote(mask: Mask, data: Data, temperatures: Sequence[float] = TEMPERATURES) -> Vote:
    """The vote of the mask's training keys, at the temperature with the least validation error.

    Args:
        mask: Real nodes that see real nodes: l1, l2, c3, g1 or one of your own.
        data: The graph, with features.
        temperatures: The τ to choose from, the first of the best is taken.
    """
    if data.x is None:
        raise UserError("A vote weighs keys by their features, and the graph has none.")
    if mask.layout.total != mask.layout.nodes:
        raise UserError(
            f"A vote needs a mask in which real nodes see real nodes, and {mask.name} has virtual "
            "nodes; take c3 for c4, g1 for g2 and g3."
        )
    y, validation = data.y.cpu(), data.val_mask.cpu() & (data.y.cpu() >= 0)
    votes = [
        Vote(tau, shares)
        for tau, shares in zip(temperatures, _shares(mask, data, temperatures), strict=True)
    ]
    if not bool(validation.any()):
        return votes[0]
    return min(votes, key=lambda one: one.error(y, validation))


def _shares(mask: Mask, data: Data, temperatures: Sequence[float]) -> Tensor:
    """[temperatures, N, C]. No row maximum is taken off: cos <= 1, so exp(τ (cos - 1)) is safe."""
    x = normalize(data.x.cpu(), dim=1)
    trains = data.train_mask.cpu()
    classes = class_count(data)
    tally = torch.zeros(len(temperatures), len(x), classes, dtype=torch.float64)
    for region in mask.regions:
        whole = isinstance(region, Block)
        for u, v, cosine in _parts(region, mask, trains, x):
            ballot = one_hot(data.y.cpu()[v], classes).double()
            for counted, tau in zip(tally, temperatures, strict=True):
                weight = torch.exp(tau * (cosine.double() - 1)).masked_fill(cosine.isinf(), 0.0)
                counted.index_add_(0, u, weight @ ballot if whole else weight[:, None] * ballot)
    total = tally.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, tally / total, 1 / classes)


def _parts(region: Region, mask: Mask, trains: Tensor, x: Tensor) -> Iterator[Part]:
    """Queries, training keys and their cosines (-inf for a node and itself), some at a time.

    Of a block: queries [a], keys [b], cosines [a, b]. Of another region: pair by pair, each [m].
    """
    if isinstance(region, Block):
        queries, keys = region.query_set(mask.layout), region.key_set(mask.layout)
        keys = keys[trains[keys]]
        for rows in torch.split(queries, max(1, CHUNK // max(len(keys), 1))):
            cosine = x[rows] @ x[keys].T
            yield rows, keys, cosine.masked_fill(rows[:, None] == keys, -torch.inf)
        return
    size = max(1, CHUNK // x.shape[1])
    for u, v in chunks(region, mask.layout):
        counts = trains[v] & (u != v)
        for a, b in zip(torch.split(u[counts], size), torch.split(v[counts], size), strict=True):
            yield a, b, (x[a] * x[b]).sum(dim=1)
