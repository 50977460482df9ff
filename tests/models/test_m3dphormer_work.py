"""What the forecast says an ablation keeps is what autograd keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.attention import native
from m3dphormer.models import create_model


def kept(data: Data, settings: dict[str, Any]) -> tuple[float, float]:
    """Bytes that a training step leaves for its backward pass, and what was said of them."""
    model = create_model("m3dphormer", data, clusters=30, **settings).train()
    graph, seen = model.prepare(data), {}
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model.loss(graph, data)
    works = model.works(graph, data, settings["scheme"])
    assert works is not None
    assert loss.isfinite()
    return sum(seen.values()), sum(work.kept for work in works)


@pytest.mark.skipif(native.library() is None, reason="the kernels are not built")
@pytest.mark.parametrize("scheme", ["fused", "sparse"])
@pytest.mark.parametrize(
    "settings",
    [{"ffn": True}, {"residual": "inside"}, {"leave_one_out": True}, {"class_nodes": 3}],
    ids=str,
)
def test_the_kept_bytes_of_a_switch(settings: dict[str, Any], scheme: str) -> None:
    data = random_graph(3000, 5, features=20)
    got, said = kept(data, {"scheme": scheme, **settings})
    assert said == pytest.approx(got, rel=0.15)
    more, said_more = (
        a - b for a, b in zip((got, said), kept(data, {"scheme": scheme}), strict=True)
    )
    assert said_more == pytest.approx(more, rel=0.15, abs=0.02 * got)


@pytest.mark.skipif(native.library() is None, reason="the kernels are not built")
def test_the_kept_bytes_of_a_gcn() -> None:
    data = random_graph(3000, 5, features=20)
    got, said = kept(data, {"scheme": "fused", "local_scores": "gcn"})
    assert said == pytest.approx(got, rel=0.1)
