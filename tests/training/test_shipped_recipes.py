"""Every recipe that comes with the package can be trained with."""

from __future__ import annotations

from pathlib import Path

import pytest

from m3dphormer.graph import datasets
from m3dphormer.models import list_models
from m3dphormer.training.recipes import SHIPPED, shipped_path
from m3dphormer.training.settings import read_recipe, resolve

RECIPES = sorted(SHIPPED.glob("*/*.toml"))
BENCHMARKS = ["cora", "citeseer", "pubmed", "photo", "computers"]
BENCHMARKS += ["chameleon", "squirrel", "minesweeper"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_recipe_is_of_a_known_model_and_dataset_and_resolves(path: Path) -> None:
    model = path.parent.name.replace("-star", "*")
    assert model in list_models()
    assert path.stem in {one.name for one in datasets()}
    resolve(model, read_recipe(path))


@pytest.mark.parametrize("model", ["mowst", "gcn-moe"])
@pytest.mark.parametrize("dataset", BENCHMARKS)
def test_a_recipe_is_there_for_every_benchmark(model: str, dataset: str) -> None:
    _, training = resolve(model, read_recipe(shipped_path(model, dataset)))
    assert 200 <= training.epochs <= 500
