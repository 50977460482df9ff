"""An expert of M3Dphormer: multi-head attention over one mask."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from m3dphormer import masks
from m3dphormer.attention import attend, attend_additive, structure
from m3dphormer.attention.dropout import Dropout, keywords
from m3dphormer.attention.planner import Shape
from m3dphormer.attention.scores import AdditiveScores, DotScores
from m3dphormer.masks import Mask
from m3dphormer.models import m3dphormer_work
from m3dphormer.models.m3dphormer_config import M3DphormerConfig


class Expert(nn.Module):
    """Multi-head attention over one mask; additive scores at the local level, else dot-product."""

    def __init__(self, config: M3DphormerConfig, name: str) -> None:
        super().__init__()
        self.config = config
        self.additive = masks.level_of(name) == "local"
        width, heads = config.hidden, config.heads
        self.value = nn.Linear(width, width, bias=config.bias)
        if self.additive:
            own = config.local_values == "own"
            self.score = nn.Linear(width, width, bias=config.bias) if own else None
            self.score_query = nn.Parameter(torch.empty(heads, width // heads))
            self.score_key = nn.Parameter(torch.empty(heads, width // heads))
            nn.init.xavier_uniform_(self.score_query)
            nn.init.xavier_uniform_(self.score_key)
        else:
            self.query = nn.Linear(width, width, bias=config.bias)
            self.key = nn.Linear(width, width, bias=config.bias)

    def forward(self, h: Tensor, mask: Mask, dropout: Dropout | None) -> Tensor:
        """Heads side by side, [T, hidden]."""
        options = {"scheme": self.config.scheme, **keywords(dropout)}
        v = self._heads(self.value(h))
        scores = self.scores(h, v)
        if isinstance(scores, AdditiveScores):
            out = attend_additive(scores.a, scores.b, v, mask, **options)
        else:
            out = attend(scores.q, scores.k, v, mask, **options)
        return out.flatten(1)

    def scores(self, h: Tensor, v: Tensor) -> AdditiveScores | DotScores:
        """Of every pair of rows, from the state [T, hidden] and the values [T, H, d_h]."""
        if not self.additive:
            return DotScores(self._heads(self.query(h)), self._heads(self.key(h)))
        s = v if self.score is None else self._heads(self.score(h))
        a, b = (s * self.score_query).sum(-1), (s * self.score_key).sum(-1)  # [T, H]
        return AdditiveScores(a, b)

    def attention(self, h: Tensor, mask: Mask, row: int) -> tuple[Tensor, Tensor]:
        """The keys of one row, [k], and its weights on them, [k, H]."""
        csr = mask.to_csr(h.device)
        keys = csr.indices[csr.indptr[row] : csr.indptr[row + 1]]
        scores = self.scores(h, self._heads(self.value(h)))
        return keys, scores.at(torch.full_like(keys, row), keys).softmax(dim=0)

    def weights(self) -> structure.DotWeights | structure.AdditiveWeights:
        """What it is made of, for a layer that is computed by its structure."""
        if not self.additive:
            return structure.DotWeights(self.query, self.key, self.value, self.config.heads)
        score = self.value if self.score is None else self.score
        vectors = (self.score_query, self.score_key)
        return structure.AdditiveWeights(score, *vectors, self.value, self.config.heads)

    def sizes(self, mask: Mask) -> m3dphormer_work.Expert:
        """What it is, for the forecast."""
        config = self.config
        shape = Shape(config.heads, config.hidden, self.additive, config.attention_dropout > 0)
        projections = sum(isinstance(part, nn.Linear) for part in self.children())
        return m3dphormer_work.Expert(self.weights(), mask, shape, projections)

    def _heads(self, h: Tensor) -> Tensor:
        return h.view(len(h), self.config.heads, -1)  # [T, H, d_h]
