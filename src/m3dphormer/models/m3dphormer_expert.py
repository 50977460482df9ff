"""An expert of M3Dphormer: multi-head attention over one mask (Eq. 1), with one of three scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from m3dphormer.attention import attend, attend_additive, attend_gcn, structure
from m3dphormer.attention.dropout import Dropout, keywords
from m3dphormer.attention.gcn import gcn_scores
from m3dphormer.attention.planner import Shape
from m3dphormer.attention.scores import AdditiveScores, DotScores
from m3dphormer.masks import Mask
from m3dphormer.models import m3dphormer_work
from m3dphormer.models.m3dphormer_config import M3DphormerConfig
from m3dphormer.models.m3dphormer_twins import Twins, with_twins


class Expert(nn.Module):
    """Multi-head attention over one mask: scores "gat" (additive), "dot" or "gcn" (fixed)."""

    def __init__(self, config: M3DphormerConfig, name: str) -> None:
        super().__init__()
        self.config = config
        self.kind = config.scores_of(name)
        self.has_twins = name == "g3"
        width, heads = config.hidden, config.heads
        self.value = nn.Linear(width, width, bias=config.bias)
        if self.kind == "gat":
            own = config.local_values == "own"
            self.score = nn.Linear(width, width, bias=config.bias) if own else None
            self.score_query = nn.Parameter(torch.empty(heads, width // heads))
            self.score_key = nn.Parameter(torch.empty(heads, width // heads))
            nn.init.xavier_uniform_(self.score_query)
            nn.init.xavier_uniform_(self.score_key)
        elif self.kind == "dot":
            self.query = nn.Linear(width, width, bias=config.bias)
            self.key = nn.Linear(width, width, bias=config.bias)

    def forward(
        self, h: Tensor, mask: Mask, dropout: Dropout | None, twins: Twins | None = None
    ) -> Tensor:
        """Heads side by side, [T, hidden]; [T + n, hidden] of the state of n twins as well."""
        if twins is not None and not self.has_twins:
            h, twins = h[: mask.layout.total], None
        v = self._heads(self.value(h))
        scores = self.scores(h, v, mask)
        out = self._attend(scores, v, mask, dropout)
        if twins is not None:
            out = with_twins(scores, v, out, twins, dropout)
        return out.flatten(1)

    def _attend(
        self, scores: AdditiveScores | DotScores, v: Tensor, mask: Mask, dropout: Dropout | None
    ) -> Tensor:
        options = {"scheme": self.config.scheme, **keywords(dropout)}
        if self.kind == "gcn":
            return attend_gcn(v, mask, **options)
        rows = slice(mask.layout.total)
        if isinstance(scores, AdditiveScores):
            return attend_additive(scores.a[rows], scores.b[rows], v[rows], mask, **options)
        return attend(scores.q[rows], scores.k[rows], v[rows], mask, **options)

    def scores(self, h: Tensor, v: Tensor, mask: Mask) -> AdditiveScores | DotScores:
        """Of every pair of rows, from the state [T, hidden] and the values [T, H, d_h]."""
        if self.kind == "gcn":
            return gcn_scores(mask, v)
        if self.kind == "dot":
            return DotScores(self._heads(self.query(h)), self._heads(self.key(h)))
        s = v if self.score is None else self._heads(self.score(h))
        a, b = (s * self.score_query).sum(-1), (s * self.score_key).sum(-1)  # [T, H]
        return AdditiveScores(a, b)

    def attention(self, h: Tensor, mask: Mask, row: int) -> tuple[Tensor, Tensor]:
        """The keys of one row, [k], and its weights on them, [k, H]; of fixed ones their share."""
        keys = mask.keys(row).to(h.device)
        scores = self.scores(h, self._heads(self.value(h)), mask)
        return keys, scores.at(torch.full_like(keys, row), keys).softmax(dim=0)

    def weights(self) -> structure.Weights:
        """What it is made of, for a layer that is computed by its structure."""
        heads = self.config.heads
        if self.kind == "gcn":
            return structure.GCNWeights(self.value, heads)
        if self.kind == "dot":
            return structure.DotWeights(self.query, self.key, self.value, heads)
        score = self.value if self.score is None else self.score
        vectors = (self.score_query, self.score_key)
        return structure.AdditiveWeights(score, *vectors, self.value, heads)

    def sizes(self, mask: Mask) -> m3dphormer_work.Expert:
        """What it is, for the forecast."""
        config, additive = self.config, self.kind != "dot"
        shape = Shape(config.heads, config.hidden, additive, config.attention_dropout > 0)
        projections = sum(isinstance(part, nn.Linear) for part in self.children())
        return m3dphormer_work.Expert(self.weights(), mask, shape, projections)

    def _heads(self, h: Tensor) -> Tensor:
        return h.view(len(h), self.config.heads, -1)  # [T, H, d_h]
