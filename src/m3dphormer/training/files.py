"""Files of a run, each written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np
import pandas as pd

from m3dphormer.errors import UserError
from m3dphormer.graph.cache import write_atomically

Kind = TypeVar("Kind")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """A JSON object, indented."""
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_json(path: Path, *needed: str) -> dict[str, Any]:
    """A JSON object with the needed keys; a missing or broken file is the user's to know."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise damaged(path) from None
    if not isinstance(content, dict):
        raise damaged(path)
    for key in needed:
        if key not in content:
            raise UserError(f"{path} is damaged, it lacks {key!r}; train again.")
    return content


def as_record(kind: type[Kind], content: Mapping[str, Any], path: Path) -> Kind:
    """What a file holds as a dataclass."""
    try:
        return kind(**content)
    except TypeError:  # a field is missing or unknown, or there is no object
        raise damaged(path) from None


def damaged(path: Path) -> UserError:
    """A file of a run is not what was written."""
    return UserError(f"{path} is damaged; train again.")


def write_table(path: Path | TextIO, table: pd.DataFrame) -> None:
    """A csv with six digits a number, as a file or on a stream."""
    if isinstance(path, Path):
        write_atomically(path, lambda temporary: _csv(temporary, table))
    else:
        _csv(path, table)


def _csv(target: Path | TextIO, table: pd.DataFrame) -> None:
    table.to_csv(target, index=False, float_format="%.6g")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """A compressed npz."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    write_atomically(path, write)


def is_empty(folder: Path) -> bool:
    """Whether nothing is in a folder but what a killed process left half written."""
    return set(folder.iterdir()) <= set(_half_written(folder))


def sweep(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for path in _half_written(folder):
        path.unlink()


def _half_written(folder: Path) -> list[Path]:
    """The temporary neighbours that ``write_atomically`` makes, ``.PID.NAME``."""
    return [path for path in folder.rglob(".*.*") if path.name.split(".")[1].isdigit()]
