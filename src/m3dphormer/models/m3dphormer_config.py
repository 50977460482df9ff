"""Settings of M3Dphormer and their two presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from m3dphormer import masks
from m3dphormer.attention import DEFAULT_SCHEME, SCHEMES
from m3dphormer.errors import UserError
from m3dphormer.models.base import ModelConfig
from m3dphormer.models.settings import (
    Rule,
    at_least,
    between,
    either,
    flag,
    one_of,
    setting,
    word,
)


@dataclass(frozen=True)
class M3DphormerConfig(ModelConfig):
    """Settings of M3Dphormer; every difference between the two presets is a named switch.

    Args:
        experts: One mask name an expert.
        routing: "bilevel" (Eq. 5), "softmax" over all experts, or "uniform" without routing.
        clusters: Number of METIS clusters, or "auto" for about N/32.
        attention_dropout: Dropout on the attention weights; ``dropout`` acts on features.
        norm: "rms" before the experts, or "batch" after the residual sum.
        scheme: How attention is computed; does not change the result.
        input: "linear": X W; "skip": dropout(z + ReLU(z)) with z = X W + b.
        readout: What the classifier reads: the "last" state or the "sum" of all.
        local_values: The local expert's values are its "shared" score projection or "own".
        virtual_gates: Virtual nodes are "routed" like real ones, or "fixed": cluster nodes take
            the cluster expert alone, class nodes the global expert alone.
        cluster_self_loops: Whether a cluster node sees itself.
        bias: Biases everywhere but in the gates.
        norm_bias: A bias in RMSNorm.
        loss: "mean" over training and class nodes together, or "weighted": CE(train) +
            (class nodes / training nodes) CE(class nodes), the same up to a factor.
    """

    preset: str = setting("official", Rule("a preset", lambda v: isinstance(v, str)))
    experts: tuple[str, ...] = setting(
        ("l2", "c4", "g3"),
        Rule("a list of mask names", lambda v: isinstance(v, tuple) and len(set(v)) == len(v) > 0),
    )
    routing: str = setting("bilevel", one_of("bilevel", "softmax", "uniform"))
    heads: int = setting(2, at_least(1))
    clusters: int | str = setting("auto", either(at_least(1), word("auto")))
    attention_dropout: float = setting(0.1, between(0, 1))
    norm: str = setting("rms", one_of("rms", "batch"))
    scheme: str = setting(DEFAULT_SCHEME, one_of(*SCHEMES))
    input: str = setting("skip", one_of("linear", "skip"))
    readout: str = setting("sum", one_of("last", "sum"))
    local_values: str = setting("own", one_of("shared", "own"))
    virtual_gates: str = setting("fixed", one_of("routed", "fixed"))
    cluster_self_loops: bool = setting(True, flag())
    bias: bool = setting(True, flag())
    norm_bias: bool = setting(True, flag())
    loss: str = setting("weighted", one_of("mean", "weighted"))

    PRESETS: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "official": {},
        "paper": {
            "input": "linear",
            "readout": "last",
            "local_values": "shared",
            "virtual_gates": "routed",
            "cluster_self_loops": False,
            "bias": False,
            "norm_bias": False,
            "loss": "mean",
        },
    }

    @property
    def levels(self) -> tuple[masks.Level, ...]:
        """The level of each expert."""
        return tuple(masks.level_of(name) for name in self.experts)

    def __post_init__(self) -> None:
        for name in self.experts:
            masks.level_of(name)
        if self.hidden % self.heads:
            raise UserError(
                f"The 'heads' parameter must divide hidden={self.hidden}. Got {self.heads}."
            )
