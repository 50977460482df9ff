"""The runs of a comparison: one row a run in a csv that only grows."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from m3dphormer.errors import UserError
from m3dphormer.graph.cache import write_atomically

Row = dict[str, Any]
NUMBERS: dict[str, Callable[[str], float]] = {
    "seed": int,
    "test": float,
    "validation": float,
    "best_epoch": int,
    "epochs": int,
    "seconds": float,
    "seconds_per_epoch": float,
    "parameters": int,
    "peak_mb": float,
}
COLUMNS = ("dataset", "graph", "model", "metric", *NUMBERS, "recipe", "settings")
ORIGIN = ("command", "commit", "machine", "python", "torch")
HEADER = (*COLUMNS, *ORIGIN)


@dataclass(frozen=True)
class Runs:
    """The file. A row is added in one write, so that a killed process leaves whole rows."""

    path: Path

    def begin(self) -> None:
        """Make the file, or see that it is one; what cannot be is told before the work."""
        if self.path.exists():
            self.read()
        else:
            self.add({name: name for name in HEADER})

    def read(self) -> list[Row]:
        """All rows; a last line without an end, which a full disk may leave, is taken away."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{self.path} cannot be read; choose another --out.") from None
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            write_atomically(self.path, lambda temporary: temporary.write_text(whole, "utf-8"))
        lines = csv.DictReader(io.StringIO(whole))
        if whole and tuple(lines.fieldnames or ()) != HEADER:
            raise UserError(f"{self.path} is not a table of runs; choose another --out.")
        try:
            return [_parsed(row) for row in lines]
        except ValueError as error:
            raise UserError(f"{self.path}, line {lines.line_num}: {error}; mend it.") from None

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a run."""
        text = io.StringIO()
        csv.DictWriter(text, HEADER, lineterminator="\n").writerow(row)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                file.write(text.getvalue().encode())
                os.fsync(file)
        except OSError as error:
            way_out = "mend that, then the same command goes on"
            raise UserError(f"{self.path}: {error.strerror}; {way_out}.") from None


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as one cell, the same text for the same settings."""
    return json.dumps(settings, sort_keys=True)


def _parsed(row: Row) -> Row:
    """Numbers as numbers; an empty cell is None."""
    numbers = {name: kind(row[name]) if row[name] else None for name, kind in NUMBERS.items()}
    return {**row, **numbers}
