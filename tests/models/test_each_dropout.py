"""Every dropout that a model offers does something in training, and nothing else does it."""

from __future__ import annotations

import pytest
import torch

from graphs import random_graph
from m3dphormer.models import create_model, list_models, model_type
from m3dphormer.models.settings import setting_names

DROPOUTS = {
    name: [setting for setting in setting_names(model_type(name).config_type) if "drop" in setting]
    for name in list_models()
}


def answers(name: str, **dropout: float) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The first loss of each phase, and the logits of an evaluation, from the same start."""
    data = random_graph()
    torch.manual_seed(0)
    given = dict.fromkeys(DROPOUTS[name], 0.0) | dropout
    model = create_model(name, data, hidden=8, layers=2, **given)
    graph, losses = model.prepare(data), []
    for phase in model.phases(100):
        model.enter(phase.name)
        torch.manual_seed(1)  # what else is drawn is the same
        losses.append(next(iter(model.train().losses(graph, data))))
    with torch.no_grad():
        return losses, model.eval()(graph)


@pytest.mark.parametrize(
    ("name", "setting"), [(name, setting) for name, some in DROPOUTS.items() for setting in some]
)
def test_each_dropout_acts_in_training_alone(name: str, setting: str) -> None:
    losses, logits = answers(name)
    dropped, same = answers(name, **{setting: 0.5})
    assert not all(map(torch.equal, dropped, losses))
    if not any(isinstance(m, torch.nn.BatchNorm1d) for m in modules(name)):
        torch.testing.assert_close(same, logits, rtol=0, atol=0)


def modules(name: str) -> list[torch.nn.Module]:
    return list(create_model(name, random_graph(), hidden=8, layers=2).modules())
