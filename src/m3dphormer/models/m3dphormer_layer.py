"""A layer of M3Dphormer (Eq. 4): the router (Eq. 5), the norm, three experts, the residual map."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from m3dphormer.attention import structure
from m3dphormer.attention.dropout import Dropout, among
from m3dphormer.models.base import Attention
from m3dphormer.models.m3dphormer_chance import Chance
from m3dphormer.models.m3dphormer_config import M3DphormerConfig
from m3dphormer.models.m3dphormer_expert import Expert
from m3dphormer.models.m3dphormer_graph import Graph
from m3dphormer.models.m3dphormer_twins import batch_norm


class Router(nn.Module):
    """How much of each expert a row takes (Eq. 5); gates without bias, zero at the start."""

    def __init__(self, config: M3DphormerConfig) -> None:
        super().__init__()
        self.experts = len(config.experts)
        self.kind = config.routing
        if self.kind == "bilevel" and self.experts > 3:
            self.kind = "softmax"  # two levels serve at most three experts
        outputs = {"bilevel": self.experts - 1, "softmax": self.experts, "uniform": 0}[self.kind]
        self.gate = nn.Linear(config.hidden, outputs, bias=False) if outputs else None
        if self.gate is not None:
            nn.init.zeros_(self.gate.weight)

    def logits(self, h: Tensor) -> Tensor | None:
        """What is learned about each row, [T, experts - 1] or [T, experts]; None: nothing."""
        return None if self.gate is None else self.gate(h)

    def forward(self, logits: Tensor | None, like: Tensor) -> Tensor:
        """[T, experts], rows that sum to 1: b1, (1 - b1) b2, (1 - b1)(1 - b2) for three experts."""
        if logits is None:
            return like.new_full((len(like), self.experts), 1 / self.experts)
        if self.kind == "softmax":
            return logits.softmax(dim=1)
        rest, shares = logits.new_ones(len(logits)), []
        for beta in logits.sigmoid().unbind(dim=1):
            shares.append(rest * beta)
            rest = rest * (1 - beta)
        return torch.stack([*shares, rest], dim=1)


class RMSNorm(nn.Module):
    """h / sqrt(mean(h^2) + eps) * weight + bias."""

    def __init__(self, width: int, *, bias: bool, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.eps = eps

    def forward(self, h: Tensor) -> Tensor:
        h = h * (h.square().mean(dim=1, keepdim=True) + self.eps).rsqrt() * self.weight
        return h if self.bias is None else h + self.bias


class FeedForward(nn.Module):
    """H + dropout(W2 ReLU(W1 Norm(H))), d -> 4d -> d; an ablation, the paper's layer has none."""

    def __init__(self, config: M3DphormerConfig) -> None:
        super().__init__()
        width = config.hidden
        own = config.norm == "rms" or config.residual == "inside"  # else the layer's follows
        self.norm = RMSNorm(width, bias=config.norm_bias) if own else nn.Identity()
        self.up = nn.Linear(width, 4 * width, bias=config.bias)
        self.down = nn.Linear(4 * width, width, bias=config.bias)

    def forward(self, h: Tensor, dropout: Dropout | None) -> Tensor:
        """[T, hidden]."""
        return h + structure.drop_features(self.down(self.up(self.norm(h)).relu()), dropout)


class Layer(nn.Module):
    """H^l = dropout(ReLU(BiMoE(Norm(H), masks))) + H W_res (Eq. 4), or with the norm at the end.

    With the residual inside: dropout(ReLU(BiMoE(Norm(H), masks) + H W_res)), or with the norm of
    that sum.
    """

    def __init__(self, config: M3DphormerConfig) -> None:
        super().__init__()
        self.config = config
        self.pre = config.norm == "rms"
        width = config.hidden
        self.norm = RMSNorm(width, bias=config.norm_bias) if self.pre else nn.BatchNorm1d(width)
        self.router = Router(config)
        self.experts = nn.ModuleList(Expert(config, name) for name in config.experts)
        self.residual = nn.Linear(width, width, bias=config.bias)
        self.ffn = FeedForward(config) if config.ffn else None

    def share(self, other: Layer) -> None:
        """Have all but the norm in common with another layer."""
        for name in ("router", "experts", "residual", "ffn"):
            delattr(self, name)
            self.__dict__[name] = getattr(other, name)  # no child: its weights are saved once

    def forward(
        self,
        h: Tensor,
        graph: Graph,
        chance: Chance,
        at: int,
        classifier: nn.Linear | None = None,
        asked: structure.Asked | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The next state [T, hidden], the gates [T, experts], and what W of the classifier makes of
        this state, [T, C], where it is computed by its structure; of the asked rows alone.
        """
        given = (h, graph, chance, at, classifier, asked)
        if self._must_recompute(h, graph, at):
            out, gates, seen = structure.recomputed(self._inside, *given)
        else:
            out, gates, seen = self._inside(*given)
        if isinstance(self.norm, nn.BatchNorm1d):
            out = batch_norm(self.norm, out, graph.layout.total)
        if self.config.residual == "inside":
            rows = None if asked is None else asked.rows
            out = structure.drop_features(out.relu(), among(chance.features(at), rows))
            out = out if self.ffn is None else self.ffn(out, among(chance.ffn(at), rows))
        return out, gates, seen

    def _inside(
        self,
        h: Tensor,
        graph: Graph,
        chance: Chance,
        at: int,
        classifier: nn.Linear | None,
        asked: structure.Asked | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        drops = [chance.attention(at, i) for i in range(len(self.experts))]
        layout, rows = (graph.layout, None) if asked is None else (asked.layout, asked.rows)
        fused = self._fused(h, graph)
        if fused:
            given = self._by_structure(h, graph, drops, classifier, asked)
            logits, answers, (residual, *others) = given
            seen = others[0] if others else None
        else:
            seen = None
            z = self.norm(h) if self.pre else h
            logits, residual = self.router.logits(z), self.residual(h)
            three = zip(self.experts, graph.masks, drops, strict=True)
            answers = [
                structure.Piece(i, 0, expert(z, mask, drop, graph.twins))
                for i, (expert, mask, drop) in enumerate(three)
            ]
        gates = self.router(logits, residual)
        if self.config.virtual_gates == "fixed":
            gates = torch.cat([gates[: layout.nodes], graph.fixed_gates()])
        if self.config.residual == "inside":
            return structure.gather(answers, gates, residual, fused=fused), gates, seen
        drop = among(chance.features(at), rows)
        out = structure.mix(answers, gates, residual, drop, fused=fused)
        return (
            (out if self.ffn is None else self.ffn(out, among(chance.ffn(at), rows))),
            gates,
            seen,
        )

    def attention(self, h: Tensor, graph: Graph, row: int) -> list[Attention]:
        """Whom a row attends to, by expert."""
        z, found = self.norm(h) if self.pre else h, []
        for name, expert, mask in zip(self.config.experts, self.experts, graph.masks, strict=True):
            keys, weights = expert.attention(z, mask, row)  # type: ignore[operator]
            places = [graph.layout.role_of(key) for key in keys.tolist()]
            several = {"classes": self.config.class_nodes}
            numbers = torch.tensor([number // several.get(role, 1) for role, number in places])
            found.append(Attention(name, tuple(role for role, _ in places), numbers, weights))
        return found

    def _fused(self, h: Tensor, graph: Graph) -> bool:
        """Whether it is computed by its structure, which knows no twins."""
        return graph.twins is None and structure.structured(self.config.scheme, h)

    def _must_recompute(self, h: Tensor, graph: Graph, at: int) -> bool:
        """The last layers keep their insides as long as there is room."""
        return self._fused(h, graph) and at < self.config.layers - structure.kept_layers(h)

    def _by_structure(
        self,
        h: Tensor,
        graph: Graph,
        drops: list[Dropout | None],
        classifier: nn.Linear | None,
        asked: structure.Asked | None,
    ) -> tuple[Tensor | None, list[structure.Piece], list[Tensor]]:
        """The same three, without the work that the masks of the paper make needless."""
        readers: list[structure.Linear] = [(self.residual.weight, self.residual.bias)]
        if classifier is not None:
            readers.append((classifier.weight, None))
        experts = [
            structure.Expert(expert.weights(), mask, drop)  # type: ignore[operator]
            for expert, mask, drop in zip(self.experts, graph.masks, drops, strict=True)
        ]
        norm = None
        if isinstance(self.norm, RMSNorm):
            norm = structure.Norm(self.norm.weight, self.norm.bias, self.norm.eps)
        return structure.attend_all(
            h,
            graph.layout,
            experts,
            norm=norm,
            gate=self.router.gate,
            readers=readers,
            asked=asked,
        )
