"""The figure of a search: the score of every trial, and of every value that was tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COMPLETE, PRUNED, BEST = "#00798c", "#b8c0cc", "#d1495b"
COLUMNS = 4  # panels of settings in a row


def tune_figure(table: pd.DataFrame, searched: Sequence[str]) -> Figure:
    """Validation over the trials with the best so far, and a panel for each searched setting.

    Args:
        table: One row a trial: number, validation, pruned (why, or nothing) and the settings.
        searched: The settings that were searched.
    """
    from matplotlib.figure import Figure

    rows = math.ceil(len(searched) / COLUMNS)
    figure = Figure(figsize=(9.6, 3.2 + 2.2 * rows), layout="constrained")
    grid = figure.add_gridspec(1 + rows, COLUMNS, height_ratios=[3.2, *[2.2] * rows])
    top = figure.add_subplot(grid[0, :])
    _trials(top, table)
    for place, name in enumerate(searched):
        row, column = divmod(place, COLUMNS)
        _setting(figure.add_subplot(grid[1 + row, column], sharey=top), table, name)
    return figure


def _trials(ax: Axes, table: pd.DataFrame) -> None:
    complete = table["pruned"].isna()
    for rows, colour, label in (
        (table[complete], COMPLETE, "complete"),
        (table[~complete], PRUNED, "pruned"),
    ):
        ax.scatter(rows["number"], rows["validation"], s=18, color=colour, label=label)
    best = table["validation"].where(complete).cummax().ffill()
    ax.step(table["number"], best, where="post", color=BEST, linewidth=1.2, label="best so far")
    named = table[table["start"].notna() & complete]
    for number, score, name in zip(
        named["number"], named["validation"], named["start"], strict=True
    ):
        ax.annotate(name, (number, score), xytext=(5, -10), textcoords="offset points", fontsize=8)
    ax.set_xlabel("trial")
    ax.set_ylabel("validation (%)")
    ax.legend(fontsize=8, frameon=False, loc="lower right", ncols=3)
    ax.spines[["top", "right"]].set_visible(False)


def _setting(ax: Axes, table: pd.DataFrame, name: str) -> None:
    """Every trial by the value it had, and the best of each value."""
    values = sorted(table[name].unique(), key=lambda value: (isinstance(value, str), value))
    for place, value in enumerate(values):
        rows = table[table[name] == value]
        complete = rows[rows["pruned"].isna()]["validation"]
        pruned = rows[rows["pruned"].notna()]["validation"]
        ax.scatter([place] * len(pruned), pruned, s=12, color=PRUNED)
        ax.scatter([place] * len(complete), complete, s=12, color=COMPLETE)
        if len(complete):
            ax.plot([place - 0.25, place + 0.25], [complete.max()] * 2, color=BEST, linewidth=1.5)
    ax.set_xticks(range(len(values)), [f"{value}" for value in values], fontsize=7)
    ax.set_xlim(-0.5, len(values) - 0.5)
    ax.tick_params(axis="y", labelsize=8)
    ax.set_title(name, fontsize=9, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
