"""Models by name: one decorator registers, three functions use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch_geometric.data import Data

from m3dphormer.errors import unknown
from m3dphormer.graph import class_count
from m3dphormer.models.base import Model
from m3dphormer.models.settings import make_config

M = TypeVar("M", bound=type[Model])
_MODELS: dict[str, type[Model]] = {}


def register_model(name: str) -> Callable[[M], M]:
    """Make a model class usable by name everywhere; ``check_model`` tries it."""

    def register(model: M) -> M:
        _MODELS[name] = model
        return model

    return register


def list_models() -> list[str]:
    """All registered models."""
    return sorted(_MODELS)


def model_type(name: str) -> type[Model]:
    """The class of a registered model."""
    if name not in _MODELS:
        raise unknown("model", name, _MODELS)
    return _MODELS[name]


def create_model(name: str, data: Data, **settings: object) -> Model:
    """Build a model for a graph's number of features and classes, with fresh weights."""
    model = model_type(name)
    config = make_config(model.config_type, settings)
    return model(int(data.num_features), class_count(data), config)
