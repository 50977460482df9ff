"""The benchmark's figure: how much slower and larger each rival is, and growth with N."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "sparse": "#d1495b",
    "dual": "#edae49",
    "dense": "#8d99ae",
    "pyg": "#66a182",
    "polynormer": "#6d597a",
}
OUR_COLOUR = "#00798c"


def bench_figure(table: pd.DataFrame, ours: str) -> Figure:
    """Bars of the rivals' time and memory over ours (two threads), and growth if it was measured.

    Args:
        table: Rows of ``run_bench``.
        ours: The form that the others are divided by.
    """
    from matplotlib.figure import Figure

    panels = [
        (part, heap)
        for part in ("attention", "epochs", "attention memory", "epoch memory")
        for heap in ("default", "warm")
        if ((table["part"] == part) & (table["heap"] == heap)).any()
    ]
    grown = table[table["part"] == "growth"]
    count = len(panels) + (1 if len(grown) else 0)
    figure = Figure(figsize=(6.4, 2.6 * max(count, 1)), layout="constrained")
    axes = figure.subplots(max(count, 1), 1, squeeze=False)[:, 0]
    for ax, (part, heap) in zip(axes, panels, strict=False):
        chosen = table[(table["part"] == part) & (table["heap"] == heap) & (table["threads"] == 2)]
        column = "peak_bytes" if "memory" in part else "median"
        _ratios(ax, chosen, column, ours)
        unit = "memory" if "memory" in part else "time"
        ax.set_ylabel(f"{unit} over {ours}")
        ax.set_title(f"{part}, {heap} heap", fontsize=10, loc="left")
    if len(grown):
        _growth(axes[-1], grown)
    return figure


def _ratios(ax: Axes, chosen: pd.DataFrame, column: str, ours: str) -> None:
    setting = [name for name in ("graph", "kind") if name in chosen]  # epochs have no kind
    groups = list(chosen.groupby(setting, dropna=False, sort=False))
    for place, (_, rows) in enumerate(groups):
        base = rows.loc[rows["scheme"] == ours, column].iloc[0]
        others = rows[rows["scheme"] != ours]
        for i, (name, value) in enumerate(zip(others["scheme"], others[column], strict=True)):
            x = place + 0.8 * (i - (len(others) - 1) / 2) / max(len(others), 1)
            family = name.split()[0]
            bar = ax.bar(x, value / base, 0.8 / max(len(others), 1), color=COLOURS[family])
            ax.bar_label(bar, fmt="%.1f", fontsize=6)
    ax.axhline(1, color=OUR_COLOUR, linewidth=1)
    labels = ["\n".join(str(part) for part in key if part == part and part) for key, _ in groups]
    ax.set_xticks(range(len(groups)), labels, fontsize=8)
    shown = dict.fromkeys(name.split()[0] for name in chosen["scheme"] if name != ours)
    ax.legend(
        handles=[_patch(COLOURS[name], name) for name in shown], fontsize=7, frameon=False, ncols=4
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_yscale("log")
    ax.margins(y=0.3)


def _patch(colour: str, label: str) -> object:
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)


def _growth(ax: Axes, grown: pd.DataFrame) -> None:
    memory = ax.twinx()
    for (graph, kind), rows in grown.groupby(["graph", "kind"], sort=False):
        style, marker = "-" if kind == "dot" else "--", "o" if graph == "geometric" else "x"
        time, label = rows["median"], f"{graph}, {kind}"
        ax.plot(rows["nodes"], time, style + marker, markersize=3, color=OUR_COLOUR, label=label)
        memory.plot(rows["nodes"], rows["peak_bytes"] / 1e6, style, color="#d1495b", alpha=0.4)
    for one in (ax, memory):
        one.set_xscale("log", base=2)
        one.set_yscale("log")
    ax.set_xlabel("nodes")
    ax.set_ylabel("seconds")
    memory.set_ylabel("peak MB", color="#d1495b")
    ax.set_title("growth at fixed degree", fontsize=10, loc="left")
    ax.legend(fontsize=7, frameon=False)
