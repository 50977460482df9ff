from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from m3dphormer.errors import UserError
from m3dphormer.training.settings import parse_settings, read_recipe, resolve


def test_settings_are_sorted_into_model_and_training() -> None:
    model, training = resolve("m3dphormer", {"hidden": 32, "lr": 1, "experts": ["l2"]})
    assert (model.hidden, training.lr) == (32, 1.0)
    assert isinstance(training.lr, float)


def test_scalars_of_numpy_are_taken_and_kept_as_those_of_python() -> None:
    given = {"hidden": np.int64(32), "lr": np.float32(0.5), "patience": np.uint8(3)}
    given |= {"dropout": np.int8(0), "bias": np.bool_(False), "experts": np.array(["l2"]).tolist()}
    model, training = resolve("m3dphormer", given)
    kept = (model.hidden, model.dropout, model.bias, training.lr, training.patience)
    assert kept == (32, 0.0, False, 0.5, 3)
    assert [type(value) for value in kept] == [int, float, bool, float, int]


def test_values_on_the_command_line_are_read_as_toml_or_text() -> None:
    pairs = [
        "hidden=128",
        "lr=1e-3",
        "bias=false",
        "preset=paper",
        "experts=l2,c4",
        "clusters=auto",
    ]
    assert parse_settings(pairs) == {
        "hidden": 128,
        "lr": 1e-3,
        "bias": False,
        "preset": "paper",
        "experts": ["l2", "c4"],
        "clusters": "auto",
    }
    assert parse_settings(['experts=["l2", "g3"]']) == {"experts": ["l2", "g3"]}
    assert parse_settings(["experts=4"]) == {"experts": 4}
    assert parse_settings(["patience=none", "norm=none"]) == {"patience": None, "norm": "none"}


def test_a_recipe_is_a_toml_file(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('hidden = 32\nexperts = ["l2", "c4"]\n')
    assert read_recipe(recipe) == {"hidden": 32, "experts": ["l2", "c4"]}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lrr": 1}, "Unknown setting of m3dphormer 'lrr'. Did you mean lr"),
        ({"epochs": 0}, "'epochs' parameter must be an int of at least 1. Got 0"),
        ({"lr": -1.0}, r"'lr' parameter must be a float in the range \[0, 10\). Got -1.0"),
        ({"lr": np.float64("nan")}, "'lr' parameter must be a float .* Got nan"),
        ({"epochs": np.float64(3)}, "'epochs' parameter must be an int of at least 1. Got 3.0"),
        ({"lr": "fast"}, "'lr' parameter must be a float"),
        ({"weight_decay": True}, "'weight_decay' parameter must be a float"),
    ],
)
def test_bad_settings(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        resolve("m3dphormer", settings)


def test_set_without_an_equals_sign() -> None:
    with pytest.raises(UserError, match=r"--set takes key=value. Got 'hidden'"):
        parse_settings(["hidden"])


def test_recipes_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml cannot be read: No such file"):
        read_recipe(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("hidden = = 3")
    with pytest.raises(UserError, match="is not valid TOML"):
        read_recipe(tmp_path / "bad.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        read_recipe(tmp_path / "binary.toml")
