"""The one training loop, for every model: full batch, Adam, the best validation epoch kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.models import Model
from m3dphormer.training.metrics import METRICS
from m3dphormer.training.settings import TrainConfig

PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class Epoch:
    """What one epoch gave; scores are shares in [0, 1]."""

    epoch: int
    loss: float
    train: float
    val: float
    test: float
    seconds: float  # since the start of training


@dataclass(frozen=True)
class Fit:
    """A finished training: the epoch that was kept, with its weights and probabilities."""

    best: Epoch
    history: tuple[Epoch, ...]
    weights: dict[str, Tensor]
    probabilities: np.ndarray  # [N, C]


Watch = Callable[[Epoch], None]


def fit(
    model: Model,
    graph: Any,
    data: Data,
    config: TrainConfig,
    metric: str,
    watch: Watch = lambda epoch: None,
) -> Fit:
    """Train on the training nodes and keep the first epoch with the best validation score.

    Args:
        model: Fresh weights; left with the weights of the kept epoch.
        graph: What ``model.prepare`` made of ``data``.
        data: Labels and masks.
        metric: Name of the score.
        watch: Called after every epoch.
    """
    optimiser = adam(model, config)
    history: list[Epoch] = []
    best: Fit | None = None
    start = time.perf_counter()
    for number in range(1, config.epochs + 1):
        model.train()
        optimiser.zero_grad()
        loss = model.loss(graph, data)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if not torch.isfinite(loss):
            raise UserError(
                f"The loss became {loss.item()} in epoch {number}; take a smaller lr than "
                f"{config.lr:g}."
            )
        probabilities = predict(model, graph)
        scores = {part: score(probabilities, data, part, metric) for part in PARTS}
        seconds = time.perf_counter() - start
        epoch = Epoch(number, loss.item(), **scores, seconds=seconds)
        history.append(epoch)
        if best is None or epoch.val > best.best.val:
            weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            best = Fit(epoch, (), weights, probabilities)
        watch(epoch)
    assert best is not None
    model.load_state_dict(best.weights)
    model.eval()
    return Fit(best.best, tuple(history), best.weights, best.probabilities)


def adam(model: Model, config: TrainConfig) -> torch.optim.Adam:
    """The optimiser, one pass over all weights."""
    return torch.optim.Adam(
        model.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True
    )


def predict(model: Model, graph: Any) -> np.ndarray:
    """Class probabilities of the real nodes in evaluation mode, [N, C]."""
    model.eval()
    with torch.no_grad():
        return np.asarray(model(graph).softmax(dim=1).cpu().numpy())


def score(probabilities: np.ndarray, data: Data, part: str, metric: str) -> float:
    """Score of one part of the split."""
    mask = data[f"{part}_mask"].cpu().numpy()
    return METRICS[metric](probabilities[mask], data.y.cpu().numpy()[mask])
