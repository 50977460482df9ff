"""The comparison's figure: score against time, up and to the left is better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST_COLOUR, OTHER_COLOUR, PAPER_COLOUR = "#d1495b", "#00798c", "#8d99ae"


def compare_figure(told: Mapping[str, Any]) -> Figure:
    """Test score (mean and standard deviation) by seconds an epoch; the paper's score hollow.

    Args:
        told: What ``m3dphormer compare --json`` prints.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    ax = figure.subplots()
    for one in told["models"]:
        x, y = one["seconds_per_epoch"], one["mean"]
        colour = BEST_COLOUR if one["model"] == told["best"] else OTHER_COLOUR
        ax.errorbar(x, y, yerr=one["std"] or 0.0, fmt="o", color=colour, capsize=2)
        ax.annotate(one["model"], (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8)
        if one["paper"] is not None:
            ax.plot(x, one["paper"][0], "o", color=PAPER_COLOUR, fillstyle="none")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")
    ax.margins(x=0.15)
    ax.set_xlabel("seconds an epoch")
    ax.set_ylabel(f"test {told['metric']}, %")
    seeds = f"{told['seeds']} seeds" if told["seeds"] > 1 else "one seed"
    title = f"{told['dataset']}, {seeds}; red: best by validation; hollow: the paper"
    ax.set_title(title, fontsize=9, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    return figure
