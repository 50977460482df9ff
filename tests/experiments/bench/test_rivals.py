"""The forms that are timed compute the same thing, so that only their speed differs."""

from __future__ import annotations

import pytest
import torch

from graphs import random_graph
from m3dphormer import attend, attend_additive
from m3dphormer.experiments.bench import cases, rivals
from m3dphormer.masks import l2


@pytest.mark.parametrize("kind", cases.KINDS)
def test_every_form_gives_the_same_output_and_gradients(kind: str) -> None:
    mask = l2(random_graph(50))
    inputs = rivals.inputs(kind, 50, heads=2, head_width=8)
    law = attend if kind == "dot" else attend_additive
    expected = law(*inputs, mask, scheme="reference")
    gradients = torch.autograd.grad(expected.square().sum(), inputs)
    for name in cases.forms(kind, rows=50):
        out = rivals.build(name, kind, mask, heads=2, head_width=8, p=0.0)(inputs, 0)
        out = out.view_as(expected)
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5, msg=name)
        got = torch.autograd.grad(out.square().sum(), inputs)
        torch.testing.assert_close(got, gradients, rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.parametrize("kind", cases.KINDS)
def test_every_form_drops_about_the_share_that_is_asked_for(kind: str) -> None:
    mask = l2(random_graph(200))
    inputs = rivals.inputs(kind, 200, heads=4, head_width=1)
    ones = (torch.zeros_like(inputs[0]), torch.zeros_like(inputs[1]), torch.ones_like(inputs[2]))
    for name in cases.forms(kind, rows=200):
        form = rivals.build(name, kind, mask, heads=4, head_width=1, p=0.3)
        mean = torch.stack([form(ones, seed).mean() for seed in range(20)]).mean()
        assert mean == pytest.approx(1.0, abs=0.03), name


def test_dense_is_compared_only_on_few_rows() -> None:
    assert "dense" in cases.forms("dot", rows=2708)
    assert "dense" not in cases.forms("dot", rows=19_717)
