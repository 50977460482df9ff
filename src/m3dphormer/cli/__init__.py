"""The command ``m3dphormer``: parses, calls, prints. A user's mistake is one line and exit 2."""

from __future__ import annotations

import sys
import warnings

import typer

from m3dphormer.cli import looks, runs, studies
from m3dphormer.cli.console import print_notices_once
from m3dphormer.cli.options import INTERRUPTED, fail
from m3dphormer.errors import UserError

app = typer.Typer(
    name="m3dphormer",
    help="Train graph transformers on your graph, or on the benchmarks of the paper.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # click's, wherever typer keeps it

for command in (
    *(runs.train, runs.predict, runs.report),
    *(looks.datasets, looks.audit, looks.plan),
    *(studies.tune, studies.compare, studies.bench, studies.reproduce),
):
    app.command()(command)


def main() -> None:
    """Run the command; errors of the user end it with one line on stderr and exit code 2."""
    with warnings.catch_warnings():
        print_notices_once()
        try:
            code = app(standalone_mode=False)
        except UserError as error:
            fail(str(error), 2)
        except OSError as error:  # of a file of the user's: the package's own are all there
            if error.filename is None:
                raise
            fail(f"{error.filename}: {error.strerror}; choose another place.", 2)
        except UsageError as error:
            said = error.format_message()  # type: ignore[attr-defined]
            fail(f"{said}{'' if said[-1] in '.?' else '.'} See m3dphormer --help.", 2)
    if code == INTERRUPTED:
        fail("interrupted", INTERRUPTED)
    sys.exit(code or 0)
