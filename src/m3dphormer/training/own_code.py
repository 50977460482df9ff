"""Python files of the user's that register masks or models (``--import``)."""

from __future__ import annotations

import runpy
from pathlib import Path

from m3dphormer.errors import UserError


def import_file(path: str) -> None:
    """Run a Python file for what it registers."""
    if not Path(path).is_file():
        raise UserError(f"No file {path!r} to import; check the path.")
    try:
        runpy.run_path(path)
    except Exception as error:
        raise UserError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
