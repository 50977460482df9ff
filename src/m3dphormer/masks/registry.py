"""Masks by name: a function of the graph, registered with one decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from torch_geometric.data import Data

from m3dphormer.errors import unknown
from m3dphormer.masks.mask import Level, Mask

Builder = Callable[..., Mask]
_BUILDERS: dict[str, tuple[Level, Builder]] = {}


def register_mask(level: Level) -> Callable[[Builder], Builder]:
    """Make ``def my_mask(data, **parameters) -> Mask`` usable by its name everywhere."""

    def register(builder: Builder) -> Builder:
        _BUILDERS[builder.__name__] = (level, builder)
        return builder

    return register


def names() -> list[str]:
    """All registered masks."""
    return sorted(_BUILDERS)


def level_of(name: str) -> Level:
    """The level a registered mask belongs to."""
    if name not in _BUILDERS:
        raise unknown("mask", name, _BUILDERS)
    return _BUILDERS[name][0]


def build(name: str, data: Data, **parameters: object) -> Mask:
    """Build a mask by name with its parameters."""
    level_of(name)
    builder = _BUILDERS[name][1]
    taken = [key for key in inspect.signature(builder).parameters if key != "data"]
    for key in parameters:
        if key not in taken:
            raise unknown(f"parameter of {name}", key, taken)
    return builder(data, **parameters)


def build_from(name: str, data: Data, offered: Mapping[str, object]) -> Mask:
    """Build a mask by name with those of the offered parameters that it takes."""
    level_of(name)
    taken = inspect.signature(_BUILDERS[name][1]).parameters
    return build(name, data, **{key: offered[key] for key in offered if key in taken})
