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


@dataclass(frozen=True)
class Runs:
    """The file. A row is added in one write, so that a killed process leaves whole rows."""

    path: Path

    def read(self) -> list[Row]:
        """All rows; a last line without an end, which a full disk may leave, is taken away."""
        if not self.path.exists():
            return []
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{self.path} cannot be read; choose another --out.") from None
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            write_atomically(self.path, lambda temporary: temporary.write_text(whole, "utf-8"))
        lines = csv.DictReader(io.StringIO(whole))
        if whole and tuple(lines.fieldnames or ()) != (*COLUMNS, *ORIGIN):
            raise UserError(f"{self.path} is not a table of runs; choose another --out.")
        try:
            return [_parsed(row) for row in lines]
        except ValueError as error:
            raise UserError(f"{self.path}, line {lines.line_num}: {error}; mend it.") from None

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        writer = csv.DictWriter(text, (*COLUMNS, *ORIGIN), lineterminator="\n")
        if not self.path.exists() or self.path.stat().st_size == 0:
            writer.writeheader()
        writer.writerow(row)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(file, text.getvalue().encode())
            os.fsync(file)
        finally:
            os.close(file)


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as one cell, the same text for the same settings."""
    return json.dumps(settings, sort_keys=True)


def _parsed(row: Row) -> Row:
    """Numbers as numbers; an empty cell is None."""
    numbers = {name: kind(row[name]) if row[name] else None for name, kind in NUMBERS.items()}
    return {**row, **numbers}
