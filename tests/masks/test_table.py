from __future__ import annotations

import pytest

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.errors import UserError

PAPER = {  # the paper's table 4, read by rows
    "l1": {"goat", "nagphormer", "vcr-graphormer", "gcformer"},
    "l2": {
        "nodeformer",
        "sgformer",
        "polynormer",
        "cobformer",
        "nagphormer",
        "vcr-graphormer",
        "gcformer",
        "m3dphormer",
    },
    "c1": {"graph-vit", "cluster-gt", "cobformer"},
    "c2": {"cluster-gt"},
    "c3": {"cobformer"},
    "c4": {"m3dphormer"},
    "g1": {"nodeformer", "sgformer", "polynormer"},
    "g2": {"exphormer"},
    "g3": {"m3dphormer"},
}


@pytest.mark.parametrize("name", masks.TRANSFORMERS)
def test_a_transformer_is_its_masks_of_the_papers_table_by_level(name: str) -> None:
    data = random_graph()
    found = masks.of(name, data, clusters=6)
    built = {mask.name.split("(")[0]: level for level, group in found.items() for mask in group}
    assert set(built) == {mask for mask, who in PAPER.items() if name in who}
    assert all(level == masks.level_of(mask) for mask, level in built.items())


def test_parameters_and_other_spellings() -> None:
    data = random_graph()
    assert masks.of("GOAT", data, hops=3)["local"][0].name == "l1(hops=3)"
    assert masks.of("Graph ViT", data, clusters=5)["cluster"][0].name == "c1(clusters=5)"
    assert masks.of("exphormer", data, virtual=4)["global"][0].layout.virtual == 4


def test_an_unknown_transformer_offers_the_nearest() -> None:
    with pytest.raises(UserError, match="Did you mean polynormer"):
        masks.of("polynorm", random_graph())
