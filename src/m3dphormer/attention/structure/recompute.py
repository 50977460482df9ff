"""Layers whose insides are thrown away and computed again in the backward pass, to save memory.

The numbers are the same: every pass is deterministic and dropout is a hash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

KEPT_BYTES = 4e9  # what the insides of all layers may take
INSIDES = 10  # states [T, d] that a layer keeps for its backward pass: norm, q, k, v, answers, ...


def kept_layers(state: Tensor) -> int:
    """How many layers on a state [T, d] can keep their insides."""
    return int(KEPT_BYTES // (INSIDES * max(state.numel(), 1) * state.element_size()))


def recomputed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call now, and once more in the backward pass."""
    if not torch.is_grad_enabled():
        return function(*arguments)
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False)
