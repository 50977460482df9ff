"""Where M3Dphormer drops what: every place of a forward pass has its own draws under one seed."""

from __future__ import annotations

from dataclasses import dataclass

from m3dphormer.attention.dropout import Dropout
from m3dphormer.models.m3dphormer_config import M3DphormerConfig


@dataclass(frozen=True)
class Chance:
    """What is dropped in one forward pass: every call under one seed drops on its own."""

    seed: int
    config: M3DphormerConfig
    training: bool

    def attention(self, layer: int, expert: int) -> Dropout | None:
        """Of an expert's attention weights."""
        return self._drop(self.config.attention_dropout, layer, expert)

    def features(self, layer: int) -> Dropout | None:
        """Of what a layer adds to its residual; layer -1 is the input."""
        return self._drop(self.config.dropout, layer, len(self.config.experts))

    def ffn(self, layer: int) -> Dropout | None:
        """Of what a feed-forward block adds."""
        return self._drop(self.config.dropout, self.config.layers, layer)

    def labels(self) -> Dropout | None:
        """Of the training labels that are shown."""
        return self._drop(1 - self.config.shown_labels, self.config.layers + 1, 0)

    def inputs(self) -> Dropout | None:
        """Of the nodes that have features."""
        return self._drop(self.config.hidden_features, self.config.layers + 1, 1)

    def _drop(self, p: float, layer: int, place: int) -> Dropout | None:
        call = (1 + layer) * (1 + len(self.config.experts)) + place
        return Dropout(p, self.seed, call) if self.training and p else None
