"""Every recipe in the package is one that its model understands."""

from __future__ import annotations

from pathlib import Path

import pytest

import m3dphormer
from m3dphormer.graph import datasets
from m3dphormer.training.settings import read_recipe, resolve

RECIPES = sorted((Path(m3dphormer.__file__).parent / "recipes").glob("*/*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recipe_resolves(path: Path) -> None:
    resolve(path.parent.name.replace("-star", "*"), read_recipe(path))
    assert path.stem in [one.name for one in datasets()]


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 64
