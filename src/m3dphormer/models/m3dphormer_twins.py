"""``leave_one_out``: a training node reads its class node as it would be without that node.

In the paper the class node g of a training node t tells every node about its members, t itself
included: so t meets its own label. Here, in training, t reads a *twin* of g instead, in every
layer. The twin

- starts from the mean of the other members' features (no others: zeros; a learned start has no t),
- is told by g3 what g is told, without t: g's weights on the others, scaled up to sum to 1 before
  dropout (where they are under sqrt(eps) together, it is told 0, as if there were no others),
- has gates, residual, norm and feature dropout like any row, but does not count in BatchNorm's
  statistics nor in the loss, and no other row reads it.

What is not left out: t counts in g's query, so in how g weighs the others, and the others know of
t what the graph told them. In evaluation there are no twins, so no label is needed to predict. The
i-th twin is row T + i of a state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.utils import softmax

from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.scores import Scores
from m3dphormer.masks import Layout


@dataclass(frozen=True)
class Twins:
    """Training nodes and their class nodes.

    Args:
        node: [n] the training nodes.
        group: [n] the class node of each, counted among the class nodes.
        others: [n] how many members that class node has beside it.
        classes: Rows of the class nodes.
    """

    node: Tensor
    group: Tensor
    others: Tensor
    classes: slice

    @classmethod
    def of(cls, members: Tensor, layout: Layout) -> Twins:
        """From the class node of each node, [N], -1 for none."""
        node = (members >= 0).nonzero().squeeze(1)
        group = members[node]
        sizes = torch.bincount(group, minlength=layout.classes)
        return cls(node, group, sizes[group] - 1, layout.rows("classes"))

    @property
    def row(self) -> Tensor:
        """[n] row of each one's class node."""
        return self.group + int(self.classes.start)

    def start(self, z: Tensor, bias: Tensor | None, *, learned: bool) -> Tensor:
        """Inputs of the twins, [n, hidden], from those of the other rows, z = X W + bias.

        The mean of all but one is (size * mean - one) / others, and W keeps that.
        """
        if learned:
            return z[self.row]
        others = self.others[:, None]
        rest = ((others + 1) * z[self.row] - z[self.node]) / others.clamp(min=1)
        alone = torch.zeros_like(rest) if bias is None else bias.expand_as(rest)
        return torch.where(others > 0, rest, alone)


def with_twins(
    scores: Scores, v: Tensor, out: Tensor, twins: Twins, dropout: Dropout | None
) -> Tensor:
    """Answers of g3 with twins, [T + n, H, d_h].

    Args:
        scores: Of all T + n rows.
        v: Their values, [T + n, H, d_h].
        out: The answers without twins, [T, H, d_h].
    """
    read = _read(scores, v, len(out), twins, dropout)
    return torch.cat([out.index_copy(0, twins.node, read), _told(scores, v, out, twins, dropout)])


def _read(scores: Scores, v: Tensor, total: int, twins: Twins, dropout: Dropout | None) -> Tensor:
    """What training nodes read of the class nodes, their own replaced by its twin, [n, H, d_h]."""
    heads, node, classes = v.shape[1], twins.node, twins.classes
    twin = torch.arange(total, len(v), device=v.device)
    logits = scores.dense(node, classes).transpose(0, 1)  # [n, H, C]
    own = twins.group[:, None, None].expand(-1, heads, 1)
    weights = logits.scatter(2, own, scores.at(node, twin).unsqueeze(2)).softmax(dim=2)
    if dropout is not None:
        keys = torch.arange(classes.start, classes.stop, device=v.device)
        kept = dropout.scale(node[:, None], keys[None, :], heads)  # [n, C, H]
        weights = weights * kept.transpose(1, 2).to(v.dtype)
    change = weights.gather(2, own) * (v[total:] - v[twins.row])
    return torch.einsum("nhc,chd->nhd", weights, v[classes]) + change


def _told(scores: Scores, v: Tensor, out: Tensor, twins: Twins, dropout: Dropout | None) -> Tensor:
    """What the twins are told: (o_g - a_t v_t) / (1 - a_t), [n, H, d_h]."""
    row, node = twins.row, twins.node
    weight = softmax(scores.at(row, node), twins.group)  # [n, H], of t in its class node
    kept = weight
    if dropout is not None:
        kept = weight * dropout.scale(row, node, v.shape[1]).to(v.dtype)
    rest = 1 - weight
    some = rest > torch.finfo(v.dtype).eps ** 0.5
    told = out[row] - kept.unsqueeze(2) * v[node]
    told = told / torch.where(some, rest, 1.0).unsqueeze(2)
    return torch.where(some.unsqueeze(2), told, 0.0)


def batch_norm(norm: nn.BatchNorm1d, h: Tensor, rows: int) -> Tensor:
    """BatchNorm by the statistics of the first ``rows`` rows; those that follow are twins."""
    out: Tensor = norm(h[:rows])
    if len(h) == rows:
        return out
    variance, mean = torch.var_mean(h[:rows], dim=0, correction=0)
    twins = (h[rows:] - mean) * (variance + norm.eps).rsqrt() * norm.weight + norm.bias
    return torch.cat([out, twins])
