"""What the command prints: tables, summaries, notices; the other files here decide when."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any, TextIO

import pandas as pd
from rich.console import Console
from rich.table import Table

from m3dphormer.errors import UserNotice
from m3dphormer.graph.load import Listed
from m3dphormer.training import Plan, Summary
from m3dphormer.training.forecast import plan_tables, said

if TYPE_CHECKING:
    from m3dphormer.training.study import Ended
    from m3dphormer.training.tuned import Tuned


def as_table(rows: pd.DataFrame) -> Table:
    """Numbers to the right, with three digits."""
    shown = Table(box=None, pad_edge=False)
    for name, column in rows.items():
        shown.add_column(str(name), justify="right" if column.dtype.kind in "if" else "left")
    for row in rows.itertuples(index=False):
        shown.add_row(*(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row))
    return shown


def print_datasets(listed: list[Listed]) -> None:
    """The datasets that have a name."""
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    for column in ("nodes", "edges", "features", "classes", "homophily"):
        table.add_column(column, justify="right")
    table.add_column("source", overflow="fold")
    for one in listed:
        numbers = (one.nodes, one.edges, one.features, one.classes)
        table.add_row(one.name, *(f"{n:,}" for n in numbers), f"{one.homophily:.3f}", one.source)
    open_console().print(table)


def print_trial(trial: Ended) -> None:
    """One line for who watches on a terminal."""
    if sys.stderr.isatty():
        score = "no epoch" if trial.validation is None else f"{trial.validation:.2f}"
        pruned = "" if trial.pruned is None else f", pruned: {trial.pruned}"
        words = f"trial {trial.number}: {score}{pruned} ({trial.seconds:.0f} s)"
        print(words, file=sys.stderr)


def print_summary(summary: Summary) -> None:
    """A row for each seed, and where the run lies."""
    table = Table(box=None, pad_edge=False, title_justify="left")
    for column in ("seed", "epoch", "validation", f"test {summary.metric}", "seconds"):
        table.add_column(column, justify="right")
    rows = zip(
        summary.epochs, summary.validation, summary.scores, summary.seed_seconds, strict=True
    )
    for seed, (epoch, val, test, seconds) in enumerate(rows):
        table.add_row(str(seed), str(epoch), f"{val:.2f}", f"{test:.2f}", f"{seconds:.1f}")
    spread = f" ± {summary.std:.2f}" if summary.std is not None else ""
    table.add_section()
    table.add_row("mean", "", "", f"{summary.mean:.2f}{spread}", f"{summary.seconds:.1f}")
    console = open_console()
    console.print(f"{summary.model} on {summary.dataset} ({summary.source})", highlight=False)
    console.print(table)
    print_recipe(console, summary.recipe)
    console.print(f"Run folder: {summary.run}", highlight=False, soft_wrap=True)


def print_plan(found: Plan) -> None:
    """Regions and forecast."""
    console = open_console()
    free = f"{found.available_bytes / 1e9:.1f} GB of memory available"
    console.print(f"{found.model} on {found.dataset}, {free}", highlight=False)
    print_recipe(console, found.recipe)
    if not found.schemes:
        console.print(f"{found.model} has no forecast.", highlight=False)
        return
    dense = said(found.dense_transformer_bytes)
    console.print(f"A dense transformer of as many layers and heads: {dense}", highlight=False)
    for title, rows in plan_tables(found).items():
        console.print(f"\n{title}", highlight=False)
        console.print(as_table(rows))


def print_tuned(tuned: Tuned) -> None:
    """The best trial, and what was written."""
    console, best = open_console(), tuned.best
    default = "" if tuned.defaults is None else f", of the defaults {tuned.defaults:.2f}"
    chosen = ", ".join(f"{name}={best.settings[name]}" for name in tuned.searched)
    for line in (
        f"{tuned.model} on {tuned.dataset}: {len(tuned.trials)} trials, {tuned.pruned} pruned",
        f"Best validation {tuned.metric}: {best.validation:.2f}{default}",
        f"Trial {best.number}: {chosen}",
        f"Written: {tuned.folder}/recipe.toml, trials.csv, search.png",
    ):
        console.print(line, highlight=False, soft_wrap=True)


def print_recipe(console: Console, recipe: str | None) -> None:
    """Which recipe the settings come from, if any."""
    if recipe is not None:
        console.print(f"Recipe: {recipe}", highlight=False, soft_wrap=True)


def open_console() -> Console:
    """As wide as the terminal; in a pipe or a file, wide enough to break no row."""
    console = Console(markup=False)
    return console if console.is_terminal else Console(width=200, markup=False)


def print_json(content: dict[str, Any]) -> None:
    """The one object of ``--json``."""
    print(json.dumps(content))


def print_notices_once() -> None:
    """Notices in one line each; the warnings of other libraries are not the user's business."""
    told: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, UserNotice) and str(message) not in told:
            told.add(str(message))
            print(f"notice: {message}", file=sys.stderr)

    warnings.simplefilter("always", UserNotice)
    warnings.showwarning = show
