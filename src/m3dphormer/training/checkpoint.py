"""Checkpoints: all that the next epoch depends on, and the best so far, in one file.

``checkpoint.safetensors`` is replaced in one step every few seconds, and the one before it stays as
``checkpoint.previous.safetensors``; a digest tells a damaged file. A training that is killed and
restored ends bit for bit where it would have ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from m3dphormer.errors import notice
from m3dphormer.graph.cache import write_atomically
from m3dphormer.training.loop import Epoch, Kept, State

FORMAT = "1"


class Checkpoint:
    """The checkpoints of one training.

    Args:
        folder: Where they lie.
        every: Seconds of training between two of them.

    ``seconds``: How long the training that was restored had taken.
    """

    seconds = 0.0

    def __init__(self, folder: Path, every: float) -> None:
        self.newest = folder / "checkpoint.safetensors"
        self.previous = folder / "checkpoint.previous.safetensors"
        self.every = every
        self._last = time.perf_counter()

    def restore(self, state: State) -> None:
        """Bring a fresh training to where the newest sound checkpoint stood, if there is one."""
        for path in (self.newest, self.previous):
            if not path.is_file():
                continue
            try:
                tensors, facts = _read(path)
            except (OSError, ValueError, KeyError, SafetensorError):
                notice(f"{path} is damaged; training goes on from what was saved before it.")
                continue
            _fill(state, tensors, facts)
            self.seconds = state.history[-1].seconds
            return

    def keep(self, state: State) -> None:
        """Write a checkpoint when it is time."""
        if time.perf_counter() - self._last >= self.every:
            self.write(state)
            self._last = time.perf_counter()

    def write(self, state: State) -> None:
        """Write a checkpoint; whatever goes wrong, a whole one remains."""
        content = _bytes(state)

        def write(path: Path) -> None:
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if self.newest.is_file():
                self.newest.replace(self.previous)

        write_atomically(self.newest, write)

    def remove(self) -> None:
        """Leave nothing behind."""
        self.newest.unlink(missing_ok=True)
        self.previous.unlink(missing_ok=True)


def _bytes(state: State) -> bytes:
    tensors = {f"model/{name}": tensor for name, tensor in state.model.state_dict().items()}
    for index, moments in state.optimiser.state_dict()["state"].items():
        tensors |= {f"adam/{index}/{name}": tensor for name, tensor in moments.items()}
    tensors |= {f"average/{name}": tensor for name, tensor in (state.average or {}).items()}
    tensors["random/cpu"] = torch.get_rng_state()
    device = _device(state)
    if device.type == "cuda":
        tensors["random/cuda"] = torch.cuda.get_rng_state(device)
    if state.kept is not None:
        tensors |= {f"best/{name}": tensor for name, tensor in state.kept.weights.items()}
        tensors["probabilities"] = torch.from_numpy(state.kept.probabilities)
    tensors = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    facts = json.dumps(
        {
            "history": [asdict(epoch) for epoch in state.history],
            "best": None if state.kept is None else asdict(state.kept.epoch),
        }
    )
    metadata = {"format": FORMAT, "facts": facts, "digest": _digest(tensors, facts)}
    content: bytes = save(tensors, metadata)
    return content


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    if metadata["format"] != FORMAT or metadata["digest"] != _digest(tensors, metadata["facts"]):
        raise ValueError(f"{path} is not what was written")
    facts: dict[str, Any] = json.loads(metadata["facts"])
    return tensors, facts


def _fill(state: State, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    state.model.load_state_dict(_under("model/", tensors))
    adam = state.optimiser.state_dict()
    for name, tensor in _under("adam/", tensors).items():
        index, _, moment = name.partition("/")
        adam["state"].setdefault(int(index), {})[moment] = tensor
    state.optimiser.load_state_dict(adam)
    torch.set_rng_state(tensors["random/cpu"])
    device = _device(state)
    if device.type == "cuda" and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"], device)
    state.history[:] = [Epoch(**epoch) for epoch in facts["history"]]
    state.average = _weights("average/", tensors, device) or None
    if facts["best"] is not None:
        weights = _weights("best/", tensors, device)
        state.kept = Kept(Epoch(**facts["best"]), weights, tensors["probabilities"].numpy())


def _weights(prefix: str, tensors: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in _under(prefix, tensors).items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): tensor for n, tensor in tensors.items() if n.startswith(prefix)}


def _device(state: State) -> torch.device:
    return next(state.model.parameters()).device


def _digest(tensors: dict[str, Tensor], facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
