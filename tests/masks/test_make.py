from __future__ import annotations

import pytest
import torch

from graphs import random_graph
from m3dphormer import masks
from m3dphormer.errors import UserError


def test_a_mask_from_pairs_holds_each_once() -> None:
    data = random_graph()
    mask = masks.from_edges(data, torch.tensor([[1, 2, 1], [2, 1, 2]]), name="mine")
    assert (mask.name, mask.level, mask.nnz) == ("mine", "local", 2)
    assert mask.to_dense()[1, 2]
    assert not mask.to_dense()[3].any()


def test_a_mask_from_a_rule_on_pairs() -> None:
    data = random_graph(700)  # more rows than one chunk
    mask = masks.from_rule(data, lambda u, v: (u - v).abs() <= 1, name="band", level="global")
    assert mask.nnz == 3 * 700 - 2
    assert mask.level == "global"
    assert mask.to_dense()[650, 651]


def test_c3_as_a_rule() -> None:
    data = random_graph()
    cluster = masks.assign(data, 6)
    by_rule = masks.from_rule(data, lambda u, v: cluster[u] == cluster[v])
    assert by_rule == masks.c3(data, cluster)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (torch.tensor([[0], [60]]), "names nodes outside 0 to 59"),
        (torch.tensor([[0], [-1]]), "names nodes outside 0 to 59"),
        (torch.tensor([0, 1]), r"of shape \[2, m\]. Got \[2\]"),
        (torch.zeros(2, 3), "must be node numbers"),
    ],
)
def test_bad_pairs(pairs: torch.Tensor, words: str) -> None:
    with pytest.raises(UserError, match=words):
        masks.from_edges(random_graph(), pairs)


def test_bad_levels_and_rules() -> None:
    with pytest.raises(UserError, match="'level' parameter must be one of local"):
        masks.from_edges(random_graph(), torch.zeros(2, 0, dtype=torch.long), level="lokal")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="must give booleans of shape"):
        masks.from_rule(random_graph(), lambda u, v: u - v)
