from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from m3dphormer.errors import UserError
from m3dphormer.training.compare.runs import Runs, settings_text


def row(**changes: Any) -> dict[str, Any]:
    told = {
        "dataset": "mine, with a comma",
        "graph": "abc",
        "model": "gcn*",
        "metric": "accuracy",
        "seed": 3,
        "test": 87.123456789012,
        "validation": 1 / 3,
        "best_epoch": 7,
        "epochs": 9,
        "seconds": 1.5,
        "seconds_per_epoch": 0.1,
        "parameters": 1234567,
        "peak_mb": None,
        "recipe": "",
        "settings": settings_text({"b": 'a "word"', "a": [1, 2]}),
        **dict.fromkeys(("command", "commit", "machine", "python", "torch"), "x"),
    }
    return {**told, **changes}


def begun(path: Path) -> Runs:
    runs = Runs(path)
    runs.begin()
    return runs


def test_a_folder_that_cannot_be_made_is_told_at_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="mend that, then the same command goes on"):
        begun(tmp_path / "file" / "runs.csv")


def test_what_is_added_is_read_to_the_last_bit(tmp_path: Path) -> None:
    runs = begun(tmp_path / "new" / "runs.csv")
    assert runs.read() == []
    given = [row(), row(seed=4, peak_mb=12.5)]
    for one in given:
        runs.add(one)
    assert runs.read() == given


def test_a_row_cut_off_by_a_full_disk_is_taken_away_and_the_next_is_whole(tmp_path: Path) -> None:
    runs = begun(tmp_path / "runs.csv")
    runs.add(row())
    runs.add(row(seed=4))
    runs.path.write_text(runs.path.read_text()[:-20])
    assert [one["seed"] for one in runs.read()] == [3]
    runs.add(row(seed=5))
    assert [one["seed"] for one in runs.read()] == [3, 5]


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    one, other = begun(tmp_path / "runs.csv"), begun(tmp_path / "runs.csv")
    one.add(row(seed=0))
    other.add(row(seed=1))
    one.add(row(seed=2))
    assert [each["seed"] for each in other.read()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("content", "words"),
    [("a,b\n1,2\n", "is not a table of runs"), (b"\xff\xfe", "cannot be read")],
)
def test_a_file_that_is_something_else_is_refused(
    tmp_path: Path, content: str | bytes, words: str
) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=words):
        Runs(path).begin()


def test_a_cell_that_is_no_number_is_named_by_its_line(tmp_path: Path) -> None:
    runs = begun(tmp_path / "runs.csv")
    runs.add(row())
    runs.add(row(test="high"))
    with pytest.raises(UserError, match=r"line 3: .*'high'"):
        runs.read()


def test_settings_are_the_same_text_in_any_order() -> None:
    assert settings_text({"a": 1, "b": 2.0}) == settings_text({"b": 2.0, "a": 1})
