"""A moving average of a network's weights over the epochs, which is scored and kept in their place.

The average after epoch t is a A + (1 - a) W with a = min(decay, 1 - 1/t): the mean of all epochs
as long as there are fewer than 1 / (1 - decay) of them. Buffers such as BatchNorm's statistics are
averaged like weights; whole numbers are the newest ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

Weights = dict[str, Tensor]


def copied(model: nn.Module) -> Weights:
    """All weights and buffers as they are now."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def moved(average: Weights | None, model: nn.Module, decay: float, epoch: int) -> Weights:
    """The average after an epoch, counted from 1; the one before it is changed in place."""
    if average is None:
        return copied(model)
    step = 1 - min(decay, 1 - 1 / epoch)
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            average[name].lerp_(tensor, step)
        else:
            average[name].copy_(tensor)
    return average


@contextmanager
def carrying(model: nn.Module, weights: Weights | None) -> Iterator[None]:
    """Have these weights for a while; None: its own."""
    if weights is None:
        yield
        return
    own = copied(model)
    model.load_state_dict(weights)
    try:
        yield
    finally:
        model.load_state_dict(own)
