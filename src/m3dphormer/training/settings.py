"""How a model is trained, and where its settings come from: defaults, recipe, ``--set``."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from m3dphormer.errors import UserError, unknown
from m3dphormer.models import ModelConfig, model_type
from m3dphormer.models.settings import (
    at_least,
    between,
    either,
    make_config,
    nothing,
    one_of,
    setting,
    setting_names,
)
from m3dphormer.training.scaling import FEATURES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class TrainConfig:
    """Full batch, Adam; the best validation epoch is kept.

    ``schedule``: the rate stays "constant", as the paper's does, or falls to 0 by half a "cosine".
    ``average``: decay of a moving average of the weights, scored and kept in their place; 0: none.
    ``patience``: stop after so many epochs without a better validation score.
    ``features``: "standard" brings each column to mean 0 and deviation 1, "auto" does where numbers
    are large, "raw" never.
    """

    lr: float = setting(0.001, between(0, 10), search=(5e-4, 1e-3, 5e-3))
    weight_decay: float = setting(0.0005, between(0, 10), search=(0.0, 1e-4, 5e-4, 1e-3, 5e-3))
    epochs: int = setting(200, at_least(1))
    schedule: str = setting("constant", one_of("constant", "cosine"))
    average: float = setting(0.0, between(0, 1))
    patience: int | None = setting(None, either(at_least(1), nothing()))
    features: str = setting("auto", one_of(*FEATURES))

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 1."""
        if self.schedule == "constant":
            return self.lr
        return self.lr * (1 + math.cos(math.pi * (epoch - 1) / self.epochs)) / 2


def resolve(model: str, settings: Mapping[str, object]) -> tuple[ModelConfig, TrainConfig]:
    """Sort plain settings into the model's and the training's, each checked."""
    config_type = model_type(model).config_type
    own, training = setting_names(config_type), setting_names(TrainConfig)
    for name in settings:
        if name not in own and name not in training:
            raise unknown(f"setting of {model}", name, [*own, *training])
    return (
        make_config(config_type, {k: v for k, v in settings.items() if k in own}),
        make_config(TrainConfig, {k: v for k, v in settings.items() if k in training}),
    )


def read_recipe(path: str | Path) -> dict[str, Any]:
    """Settings from a TOML file of plain ``key = value`` lines."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Recipe {path} cannot be read: {_reason(error)}.") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"Recipe {path} is not valid TOML: {error}.") from None


def parse_settings(pairs: Iterable[str]) -> dict[str, object]:
    """``["hidden=128", "preset=paper", "experts=l2,c4"]`` as settings."""
    settings: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--set takes key=value. Got {pair!r}.")
        settings[name.strip()] = _parse_value(name.strip(), text.strip())
    return settings


def _parse_value(name: str, text: str) -> object:
    if name == "experts" and not text.isdigit():  # names of masks; elsewhere a number
        return [part.strip(" '\"") for part in text.strip("[]").split(",")]
    if name == "patience" and text.lower() == "none":  # TOML has no word for it
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error.strerror)
