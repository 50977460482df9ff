"""The scheme never changes the meaning: curves of whole trainings agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer import load
from m3dphormer.models import create_model
from m3dphormer.training.loop import fit
from m3dphormer.training.settings import TrainConfig


def curve(data: Data, scheme: str, epochs: int, **settings: object) -> np.ndarray:
    """Loss of every epoch."""
    torch.manual_seed(0)
    model = create_model("m3dphormer", data, scheme=scheme, **settings)
    done = fit(model, model.prepare(data), data, TrainConfig(epochs=epochs), "accuracy")
    return np.array([epoch.loss for epoch in done.history])


@pytest.mark.parametrize("preset", ["official", "paper"])
@pytest.mark.parametrize("norm", ["rms", "batch"])
def test_all_schemes_train_alike(preset: str, norm: str) -> None:
    settings = {"hidden": 8, "clusters": 4, "preset": preset, "norm": norm}
    law = curve(random_graph(), "reference", 10, **settings)
    for scheme in ("fused", "dual", "sparse", "dense"):
        np.testing.assert_allclose(curve(random_graph(), scheme, 10, **settings), law, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "epochs"), [("sparse", 50), ("reference", 5)])
def test_fused_agrees_to_float32_noise_on_cora(scheme: str, epochs: int, data_root: Path) -> None:
    data = load("cora", root=str(data_root), split=0)
    settings = {"hidden": 64, "heads": 2, "clusters": 128, "attention_dropout": 0.3}
    ours, law = (curve(data, name, epochs, **settings) for name in ("fused", scheme))
    np.testing.assert_allclose(ours, law, rtol=1e-2)
    np.testing.assert_allclose(ours[:10], law[:10], rtol=1e-5)
