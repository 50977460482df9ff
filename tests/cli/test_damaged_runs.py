"""A file of a run that is not what was written is named in one line on stderr, exit code 2."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from command import Command

COMMANDS = {
    "report": ["report", "run"],
    "predict": ["predict", "run"],
    "ensemble": ["predict", "run", "--ensemble"],
    "resume": ["train", "hierarchy", "--resume", "--out", "run"],
}
READS = [
    ("report", "config.json"),
    ("report", "summary.json"),
    ("report", "seed1/result.json"),
    ("report", "seed1/model.json"),
    ("predict", "config.json"),
    ("predict", "summary.json"),
    ("predict", "seed1/model.json"),
    ("ensemble", "summary.json"),
    ("ensemble", "seed1/model.json"),
    ("resume", "config.json"),
    ("resume", "summary.json"),
]


@pytest.fixture
def run(command: Command, plain_run: Path) -> Path:
    """A copy in the working folder, its second seed the best, for that is the one predict takes."""
    copy = Path("run")
    shutil.copytree(plain_run, copy)
    change(copy / "summary.json", best_seed=1)
    return copy


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def refused(command: Command, doing: str, path: Path) -> str:
    """The line on stderr, which names the file."""
    before = sorted(Path().rglob("*"))
    code, out, err = command(*COMMANDS[doing])
    assert (code, out) == (2, "")
    assert err.startswith("m3dphormer: ")
    assert err.count("\n") == 1
    assert path.name in err
    assert sorted(Path().rglob("*")) == before
    return err


@pytest.mark.parametrize("text", ["", "[1, 2]", "null", "7", "{}"])
@pytest.mark.parametrize(("doing", "file"), READS)
def test_a_file_that_is_cut_short_or_no_object_is_named(
    command: Command, run: Path, doing: str, file: str, text: str
) -> None:
    path = run / file
    path.write_text(text or path.read_text()[: path.stat().st_size // 2])
    err = refused(command, doing, path)
    assert text == "{}" or f"{path} is damaged; train again." in err


@pytest.mark.parametrize(("doing", "file"), READS)
def test_a_key_that_is_missing_is_told_of_any_that_is_read(
    command: Command, run: Path, doing: str, file: str
) -> None:
    """Whatever key it is: one line that names the file, or the work is done all the same."""
    path, told = run / file, 0
    content = json.loads(path.read_text())
    for key in content:
        path.write_text(json.dumps({k: value for k, value in content.items() if k != key}))
        code, _, err = command(*COMMANDS[doing])
        assert code == 0 or (code, err.count("\n"), path.name in err) == (2, 1, True), (key, err)
        told += code
    assert told


@pytest.mark.parametrize("within", ["memory", "parameters"])
def test_a_key_that_is_missing_within_model_json_is_told(
    command: Command, run: Path, within: str
) -> None:
    path = run / "seed1" / "model.json"
    content = json.loads(path.read_text())
    for key in {"memory": ["best", "label_names", "features"], "parameters": ["settings"]}[within]:
        inner = {k: value for k, value in content[within].items() if k != key}
        path.write_text(json.dumps({**content, within: inner}))
        assert "damaged" in refused(command, "predict", path)
    path.write_text(json.dumps({**content, within: None}))
    assert "damaged" in refused(command, "predict", path)


def test_settings_that_do_not_fit_the_weights_are_told(command: Command, run: Path) -> None:
    path = run / "seed1" / "model.json"
    parameters = json.loads(path.read_text())["parameters"]
    change(path, parameters={**parameters, "settings": {"hidden": 16}})
    assert "weights.safetensors does not fit model.json" in refused(command, "predict", path)


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"best": {}, "seconds": 1}'])
def test_a_seed_that_is_done_and_damaged_is_named_where_a_run_goes_on(
    command: Command, run: Path, text: str
) -> None:
    (run / "summary.json").unlink()
    (run / "seed0" / "result.json").write_text(text)
    assert "seed0/result.json is damaged" in refused(command, "resume", Path("result.json"))


def test_without_epochs_there_is_no_report(command: Command, run: Path) -> None:
    (run / "seed1" / "metrics.jsonl").write_text("")
    assert "metrics.jsonl is damaged" in refused(command, "report", Path("metrics.jsonl"))
