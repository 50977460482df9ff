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


def answers(name: str, **dropout: float) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The logits of an evaluation and the first loss of each phase, all from the same start."""
    data, logits, losses = random_graph(), [], []
    given = dict.fromkeys(DROPOUTS[name], 0.0) | dropout
    for phase in create_model(name, data).phases(100):
        torch.manual_seed(0)
        model = create_model(name, data, hidden=8, layers=2, **given)
        graph = model.prepare(data)
        model.enter(phase.name)
        with torch.no_grad():
            logits.append(model.eval()(graph))
        torch.manual_seed(1)  # what else is drawn is the same
        losses.append(next(iter(model.train().losses(graph, data))))
    return logits, losses


@pytest.mark.parametrize(
    ("name", "setting"), [(name, setting) for name, some in DROPOUTS.items() for setting in some]
)
def test_each_dropout_acts_in_training_alone(name: str, setting: str) -> None:
    logits, losses = answers(name)
    same, dropped = answers(name, **{setting: 0.5})
    assert all(map(torch.equal, same, logits))
    assert not all(map(torch.equal, dropped, losses))
