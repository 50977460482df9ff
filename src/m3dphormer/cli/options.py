"""What the commands share: options, the end with one line on stderr, small checks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from m3dphormer.errors import UserError
from m3dphormer.training.own_code import import_file

Dataset = Annotated[str, typer.Argument(help="A known name, or the path of your own graph.")]
ModelName = Annotated[str, typer.Option("--model", help="Which model.")]
Metric = Annotated[str | None, typer.Option(help="accuracy, roc_auc or f1.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, ...")]
Root = Annotated[
    str | None,
    typer.Option(envvar="M3DPHORMER_DATA", help="Folder in which raw benchmark files lie."),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A setting, key=value; may be repeated.")
]
Imports = Annotated[
    list[str] | None,
    typer.Option("--import", help="Python file that registers masks or models of yours."),
]
RecipeFile = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help="TOML file with settings; none: plain defaults.",
        show_default="the one that comes with the package, if any",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

INTERRUPTED = 130  # what typer makes of Ctrl-C


def fail(message: str, code: int) -> NoReturn:
    """End with one line on stderr."""
    print(f"m3dphormer: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def check_writable(path: str | None, suffixes: tuple[str, ...]) -> None:
    """Refuse a file that could not be written before the work starts."""
    if path is None:
        return
    if Path(path).suffix.lower() not in suffixes:
        raise UserError(f"{path!r} must end in {' or '.join(suffixes)}.")
    if not Path(path).absolute().parent.is_dir():
        raise UserError(
            f"No folder {str(Path(path).parent)!r} to write {path!r} in; make it first."
        )


def listed(text: str) -> list[str]:
    """``a,b`` as a list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def import_files(paths: list[str] | None) -> None:
    """Run what ``--import`` names."""
    for path in paths or []:
        import_file(path)
