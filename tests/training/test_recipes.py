from __future__ import annotations

import json
from pathlib import Path

import pytest

import m3dphormer as m3d
from m3dphormer import UserError
from m3dphormer.graph import datasets
from m3dphormer.models import list_models
from m3dphormer.training import recipes
from m3dphormer.training.recipes import Recipe, find_recipe, shipped_path, write_recipe
from m3dphormer.training.settings import read_recipe, resolve

SETTINGS = {"hidden": 8, "heads": 1, "layers": 1, "epochs": 2}
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that comes with one recipe, for M3Dphormer on hierarchy; in an empty folder."""
    monkeypatch.setattr(recipes, "SHIPPED", tmp_path / "shipped")
    monkeypatch.chdir(tmp_path)
    write_recipe(shipped_path("m3dphormer", "hierarchy"), SETTINGS, [])
    return tmp_path


def test_a_recipe_is_read_as_it_was_written(tmp_path: Path) -> None:
    settings = {
        "hidden": 64,
        "lr": 1e-5,
        "weight_decay": 0.0,
        "bias": True,
        "clusters": "auto",
        "experts": ["l2", "c4"],
    }
    write_recipe(tmp_path / "mine.toml", settings, ["from here", "and there"])
    assert read_recipe(tmp_path / "mine.toml") == settings
    assert (tmp_path / "mine.toml").read_text().startswith("# from here\n# and there\nhidden = 64")


@pytest.mark.usefixtures("shipped")
def test_the_shipped_recipe_is_taken_unless_another_or_none_is_asked_for() -> None:
    name = "m3dphormer/hierarchy.toml"
    assert find_recipe(None, "m3dphormer", "hierarchy") == Recipe(name, SETTINGS)
    assert find_recipe(None, "m3dphormer", "Hierarchy") == Recipe(name, SETTINGS)
    assert find_recipe("none", "m3dphormer", "hierarchy") == Recipe()
    assert find_recipe(None, "m3dphormer", "digits") == Recipe()
    assert find_recipe(None, "m3dphormer", "folder/hierarchy") == Recipe()
    Path("mine.toml").write_text("hidden = 4\n")
    assert find_recipe("mine.toml", "m3dphormer", "hierarchy").settings == {"hidden": 4}
    with pytest.raises(UserError, match=r"gone\.toml cannot be read"):
        find_recipe("gone.toml", "m3dphormer", "hierarchy")


def test_a_star_in_a_models_name_is_spelled_out_in_its_folder() -> None:
    assert shipped_path("gcn*", "cora").parts[-2:] == ("gcn-star", "cora.toml")


def config(summary: m3d.training.Summary) -> dict[str, object]:
    return json.loads((Path(summary.run) / "config.json").read_text())


@pytest.mark.usefixtures("shipped")
def test_train_takes_the_shipped_recipe_and_settings_win_over_it() -> None:
    summary = m3d.train("hierarchy", seeds=1, settings={"hidden": 4})
    assert summary.recipe == "m3dphormer/hierarchy.toml"
    record = config(summary)
    assert record["recipe"] == "m3dphormer/hierarchy.toml"
    assert record["given"] == {**SETTINGS, "hidden": 4}

    plain = m3d.train("hierarchy", seeds=1, recipe="none", settings={**SETTINGS, "layers": 2})
    assert (plain.recipe, config(plain)["recipe"]) == (None, None)
    assert config(plain)["settings"]["layers"] == 2  # type: ignore[index]


@pytest.mark.usefixtures("shipped")
def test_a_resumed_run_keeps_the_settings_it_was_begun_with() -> None:
    begun = m3d.train("hierarchy", seeds=1, recipe="none", settings={**SETTINGS, "hidden": 4})
    (Path(begun.run) / "summary.json").unlink()
    resumed = m3d.train("hierarchy", out=begun.run, resume=True)
    assert (resumed.scores, resumed.recipe) == (begun.scores, None)


@pytest.mark.usefixtures("shipped")
def test_plan_takes_the_shipped_recipe_too() -> None:
    found = m3d.plan("hierarchy")
    assert found.recipe == "m3dphormer/hierarchy.toml"
    plain = m3d.plan("hierarchy", recipe="none")
    assert plain.recipe is None
    assert plain.schemes["fused"].peak_bytes > found.schemes["fused"].peak_bytes


def test_every_shipped_recipe_belongs_to_a_model_and_a_dataset_and_is_valid() -> None:
    expected = {
        shipped_path(model, data.name): model for model in list_models() for data in datasets()
    }
    for path in recipes.SHIPPED.rglob("*.toml"):
        assert path in expected, path
        resolve(expected[path], read_recipe(path))


def test_the_projects_recipes_are_those_of_the_package() -> None:
    assert (PROJECT / "recipes").resolve() == recipes.SHIPPED.resolve()
    assert (recipes.SHIPPED / "README.md").is_file()
