"""The one training loop, for every model: full batch, Adam, the best validation epoch kept."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.models import Model, Phase
from m3dphormer.training import average
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
class Kept:
    """The first epoch with the best validation score so far."""

    epoch: Epoch
    weights: dict[str, Tensor]
    probabilities: np.ndarray  # [N, C]


@dataclass
class State:
    """Where a training stands: with torch's random state, all that the next epoch depends on."""

    model: Model
    optimiser: torch.optim.Adam
    history: list[Epoch] = field(default_factory=list)
    kept: Kept | None = None
    average: average.Weights | None = None  # of the weights, where it is asked for


@dataclass(frozen=True)
class Fit:
    """A training that ended: the epoch that was kept, with its weights and probabilities."""

    best: Epoch
    history: tuple[Epoch, ...]
    weights: dict[str, Tensor]
    probabilities: np.ndarray  # [N, C]
    failure: UserError | KeyboardInterrupt | None  # what ended it before its time


Watch = Callable[[Epoch], None]


class Keeper(Protocol):
    """Something that can bring a training back to where it stood; see ``Checkpoint``."""

    def restore(self, state: State) -> None: ...

    def keep(self, state: State) -> None: ...


def fit(
    model: Model,
    graph: Any,
    data: Data,
    config: TrainConfig,
    metric: str,
    watch: Watch = lambda epoch: None,
    keeper: Keeper | None = None,
    seconds: float = math.inf,
) -> Fit:
    """Train on the training nodes and keep the first epoch with the best validation score.

    A loss that is not a number, or Ctrl-C, ends the training early and is returned as ``failure``;
    before the first epoch is done there is nothing to return, and it is raised.

    Args:
        model: Fresh weights; left with the weights of the kept epoch.
        graph: What ``model.prepare`` made of ``data``.
        data: Labels and masks.
        metric: Name of the score.
        watch: Called after every epoch; with a restored training, for its earlier epochs first.
        keeper: Restores the training if it can, and is shown every state.
        seconds: Stop after the epoch in which so much training time has passed.
    """
    state = State(model, adam(model, config))
    if keeper is not None:
        keeper.restore(state)
    failure: UserError | KeyboardInterrupt | None = None
    try:
        for epoch in state.history:
            watch(epoch)
        start = time.perf_counter() - (state.history[-1].seconds if state.history else 0.0)
        while not _over(state, config, seconds):
            _step(state, graph, data, config, metric, start)
            watch(state.history[-1])
            if keeper is not None:
                keeper.keep(state)
    except (UserError, KeyboardInterrupt) as error:
        if state.kept is None:
            raise
        failure = error
    kept = state.kept
    assert kept is not None
    model.load_state_dict(kept.weights)
    model.eval()
    return Fit(kept.epoch, tuple(state.history), kept.weights, kept.probabilities, failure)


def _over(state: State, config: TrainConfig, seconds: float) -> bool:
    """Whether the epochs, the time or the patience, which begins with the last phase, are over."""
    if state.kept is None:
        return False
    done, last = len(state.history), state.history[-1]
    *earlier, _ = state.model.phases(config.epochs)
    since = max(state.kept.epoch.epoch, sum(phase.epochs for phase in earlier))
    if config.patience is not None and done - since >= config.patience:
        return True
    return done >= config.epochs or last.seconds >= seconds


def _enter_phase(state: State, config: TrainConfig) -> None:
    """Be in the phase of the next epoch."""
    done, phases = len(state.history), state.model.phases(config.epochs)
    phase, begins = _phase_at(phases, done)
    if done == begins and phase.from_best and state.kept is not None:
        state.model.load_state_dict(state.kept.weights)
    state.model.enter(phase.name)


def _phase_at(phases: Sequence[Phase], done: int) -> tuple[Phase, int]:
    """The phase after so many epochs, and after how many it begins."""
    begins = 0
    for phase in phases[:-1]:
        if done < begins + phase.epochs:
            return phase, begins
        begins += phase.epochs
    return phases[-1], begins


def _step(
    state: State, graph: Any, data: Data, config: TrainConfig, metric: str, start: float
) -> None:
    """One epoch: the steps that the model asks for, one on all training nodes, then the scores."""
    model, number, losses = state.model, len(state.history) + 1, []
    _enter_phase(state, config)
    for group in state.optimiser.param_groups:
        group["lr"] = config.rate(number)
    model.train()
    for loss in model.losses(graph, data):
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            raise _diverged(f"The loss became {losses[-1]}", number, config)
        state.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        state.optimiser.step()
    if config.average:
        state.average = average.moved(state.average, model, config.average, number)
    with average.carrying(model, state.average):
        _look(state, graph, data, config, metric, statistics.fmean(losses), start)


def _look(
    state: State,
    graph: Any,
    data: Data,
    config: TrainConfig,
    metric: str,
    loss: float,
    start: float,
) -> None:
    """The scores of the weights that the model has now; they are kept where they are the best."""
    model, number = state.model, len(state.history) + 1
    probabilities = predict(model, graph)
    if not np.isfinite(probabilities).all():
        raise _diverged("The predictions became nan", number, config)
    scores = {part: score(probabilities, data, part, metric) for part in PARTS}
    epoch = Epoch(number, loss, **scores, seconds=time.perf_counter() - start)
    state.history.append(epoch)
    if state.kept is None or epoch.val > state.kept.epoch.val:
        state.kept = Kept(epoch, average.copied(model), probabilities)


def _diverged(what: str, number: int, config: TrainConfig) -> UserError:
    way_out = f"take a smaller lr than {config.lr:g}"
    if config.features == "raw":
        way_out += ", or features=standard"
    return UserError(f"{what} in epoch {number}; {way_out}.")


def adam(model: Model, config: TrainConfig) -> torch.optim.Adam:
    """The optimiser, one pass over all weights."""
    groups = model.parameter_groups(config.weight_decay)
    return torch.optim.Adam(groups, lr=config.lr, weight_decay=config.weight_decay, fused=True)


def predict(model: Model, graph: Any) -> np.ndarray:
    """Class probabilities of the real nodes in evaluation mode, [N, C]."""
    model.eval()
    with torch.no_grad():
        return np.asarray(model(graph).softmax(dim=1).cpu().numpy())


def score(probabilities: np.ndarray, data: Data, part: str, metric: str) -> float:
    """Score of one part of the split."""
    mask = data[f"{part}_mask"].cpu().numpy()
    return METRICS[metric](probabilities[mask], data.y.cpu().numpy()[mask])
