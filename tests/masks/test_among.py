"""A mask among some nodes is the dense form without the others' rows and columns."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphs import two_masks
from m3dphormer.masks import Mask
from m3dphormer.masks.among import among

pytestmark = pytest.mark.filterwarnings("ignore:g3. class")  # drawn graphs often lack one


@given(two_masks(), st.data())
def test_the_rows_and_columns_that_are_left(pair: tuple[Mask, Mask], draw: st.DataObject) -> None:
    mask = pair[0]
    n, total = mask.layout.nodes, mask.layout.total
    chosen = draw.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    nodes = torch.tensor(chosen).nonzero().squeeze(1)
    rows = torch.cat([nodes, torch.arange(n, total)])
    part = among(mask, nodes)
    assert part.layout.total == len(rows)
    assert torch.equal(part.to_dense(), mask.to_dense()[rows][:, rows])
