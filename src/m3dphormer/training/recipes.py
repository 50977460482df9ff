"""Recipes: settings in a TOML file, the user's own or one that comes with the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from m3dphormer.graph.cache import write_atomically
from m3dphormer.training.settings import read_recipe

SHIPPED = Path(__file__).parents[1] / "recipes"
NONE = "none"  # what the user says for plain defaults


@dataclass(frozen=True)
class Recipe:
    """Settings, and what they are called in the record of a run; None: plain defaults."""

    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def find_recipe(asked: str | None, model: str, dataset: str) -> Recipe:
    """The recipe to train with.

    Args:
        asked: A file; "none" for plain defaults; None for the shipped recipe, where there is one.
        model: Name of a model.
        dataset: A known name, or the path of a graph, for which nothing is shipped.
    """
    if asked == NONE:
        return Recipe()
    if asked is not None:
        return Recipe(asked, read_recipe(asked))
    path = shipped_path(model, dataset)
    if Path(dataset).name != dataset or not path.is_file():
        return Recipe()
    return Recipe(path.relative_to(SHIPPED).as_posix(), read_recipe(path))


def shipped_path(model: str, dataset: str) -> Path:
    """Where the recipe of a model for a known dataset is kept; a star in a name is "-star"."""
    return SHIPPED / model.replace("*", "-star") / f"{dataset.lower()}.toml"


def write_recipe(path: Path, settings: Mapping[str, Any], comments: list[str]) -> None:
    """A recipe with comment lines above its settings."""
    lines = [f"# {line}" for line in comments]
    lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    text = "\n".join(lines) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
