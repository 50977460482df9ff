"""Settings of M3Dphormer and their two presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from m3dphormer import masks
from m3dphormer.attention import DEFAULT_SCHEME, SCHEMES
from m3dphormer.errors import UserError
from m3dphormer.models.base import ModelConfig, check_heads
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
        residual: "after": dropout(ReLU(experts)) + H W_res (Eq. 4); "inside", a variant of our own:
            dropout(ReLU(experts + H W_res)), where norm="batch" acts before ReLU, as in GCN*.
        shared: All layers have the same experts, gates, residual map and FFN, each a norm of its
            own: a variant of ours that repeats one step, as belief propagation does.
        scheme: How attention is computed; does not change the result.
        input: "linear": X W; "skip": dropout(z + ReLU(z)) with z = X W + b.
        readout: What the classifier reads: the "last" state or the "sum" of all.
        local_values: The values of an expert with additive scores are its "shared" score projection
            or "own".
        virtual_gates: Virtual nodes are "routed" like real ones, or "fixed": cluster nodes take
            the cluster expert alone, class nodes the global expert alone.
        cluster_self_loops: Whether a cluster node sees itself.
        bias: Biases everywhere but in the gates.
        norm_bias: A bias in RMSNorm.
        ffn: A feed-forward block d -> 4d -> d after Eq. 4: H + dropout(W2 ReLU(W1 RMSNorm(H)));
            with norm="batch" and residual="after" the block has no norm of its own and the
            layer's follows it.
        local_scores: How the local expert weighs its keys: "gat" (additive), "dot", or "gcn", fixed
            weights D^-1/2 (A + I) D^-1/2.
        cluster_scores, global_scores: "dot" or "gat".
        leave_one_out: In training, a training node reads its class node as it would be without
            that node (``models/m3dphormer_twins.py`` says what is left out).
        class_features: A class node starts as the "mean" of its members' features or "learned".
        class_nodes: How many class nodes a class has; each sees a share of its training nodes.
        shown_labels: A variant of our own: training labels are an input too. In a training step
            this share of the training nodes, drawn anew, shows its label and the loss asks for
            those of the others; in evaluation all training nodes show theirs. 0: none does.
        hidden_features: A variant of our own: in a training step this share of the real nodes,
            drawn anew, has no features (zeros). Virtual nodes keep theirs, and evaluation hides
            none.
        loss: "mean" over training and class nodes together, or "weighted": CE(train) +
            (class nodes / training nodes) CE(class nodes), the same up to a factor.
    """

    preset: str = setting("official", Rule("a preset", lambda v: isinstance(v, str)))
    experts: tuple[str, ...] = setting(
        ("l2", "c4", "g3"),
        Rule(
            "a list of different mask names",
            lambda v: isinstance(v, tuple) and len(set(v)) == len(v) > 0,
        ),
    )
    routing: str = setting("bilevel", one_of("bilevel", "softmax", "uniform"))
    heads: int = setting(2, at_least(1), search=(1, 2, 4, 8))
    clusters: int | str = setting("auto", either(at_least(1), word("auto")))
    attention_dropout: float = setting(0.1, between(0, 1), search=(0.1, 0.3, 0.5))
    norm: str = setting("rms", one_of("rms", "batch"))
    residual: str = setting("after", one_of("after", "inside"))
    shared: bool = setting(False, flag())
    scheme: str = setting(DEFAULT_SCHEME, one_of(*SCHEMES))
    input: str = setting("skip", one_of("linear", "skip"))
    readout: str = setting("sum", one_of("last", "sum"))
    local_values: str = setting("own", one_of("shared", "own"))
    virtual_gates: str = setting("fixed", one_of("routed", "fixed"))
    cluster_self_loops: bool = setting(True, flag())
    bias: bool = setting(True, flag())
    norm_bias: bool = setting(True, flag())
    loss: str = setting("weighted", one_of("mean", "weighted"))
    ffn: bool = setting(False, flag())
    local_scores: str = setting("gat", one_of("gat", "gcn", "dot"))
    cluster_scores: str = setting("dot", one_of("dot", "gat"))
    global_scores: str = setting("dot", one_of("dot", "gat"))
    leave_one_out: bool = setting(False, flag())
    class_features: str = setting("mean", one_of("mean", "learned"))
    class_nodes: int = setting(1, at_least(1))
    shown_labels: float = setting(0.0, between(0, 1))
    hidden_features: float = setting(0.0, between(0, 1))

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

    def scores_of(self, expert: str) -> str:
        """How an expert weighs its keys: "gat", "dot" or "gcn"."""
        level = masks.level_of(expert)
        return {
            "local": self.local_scores,
            "cluster": self.cluster_scores,
            "global": self.global_scores,
        }[level]

    def __post_init__(self) -> None:
        for name in self.experts:
            masks.level_of(name)
        about_class_nodes = {"leave_one_out": False, "class_features": "mean", "class_nodes": 1}
        for name, default in about_class_nodes.items():
            if getattr(self, name) != default and "g3" not in self.experts:
                raise UserError(
                    f"The {name!r} parameter needs class nodes; add g3 to the experts "
                    f"{', '.join(self.experts)}."
                )
        check_heads(self.hidden, self.heads)
