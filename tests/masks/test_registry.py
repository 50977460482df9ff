from __future__ import annotations

import pytest
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.errors import UserError
from m3dphormer.masks import registry


def test_a_registered_mask_is_built_by_name_with_the_parameters_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_BUILDERS", dict(registry._BUILDERS))

    @masks.register_mask("local")
    def mine(data: Data, width: int = 1) -> masks.Mask:
        return masks.l2(data)

    assert "mine" in masks.names()
    assert masks.level_of("mine") == "local"
    assert masks.build("mine", random_graph(), width=2).nnz
    assert masks.build_from("mine", random_graph(), {"width": 2, "clusters": 5}).nnz
    with pytest.raises(UserError, match=r"Unknown parameter of mine 'widht'. Did you mean width"):
        masks.build("mine", random_graph(), widht=2)


def test_an_unknown_mask_offers_the_nearest() -> None:
    with pytest.raises(UserError, match=r"Unknown mask 'l22'. Did you mean l2"):
        masks.build("l22", random_graph())
