from __future__ import annotations

from typing import Any

import pytest
import torch

from graphs import random_graph
from m3dphormer.models import create_model


@pytest.mark.parametrize("layers", [1, 3])
def test_the_network_is_its_formula(layers: int) -> None:
    data = random_graph()
    model: Any = create_model("mlp", data, layers=layers).eval()
    h = data.x
    for i, layer in enumerate(model.network.layers):
        h = h @ layer.weight.T + layer.bias
        h = h.relu() if i < layers - 1 else h
    torch.testing.assert_close(model(model.prepare(data)), h)


def test_edges_do_not_matter() -> None:
    data = random_graph()
    model = create_model("mlp", data).eval()
    bare = data.clone()
    bare.edge_index = data.edge_index[:, :0]
    assert torch.equal(model(model.prepare(bare)), model(model.prepare(data)))
