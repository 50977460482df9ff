"""The audit's figure: where each mask stands by the principle, and what the nodes need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"l": "#00798c", "c": "#edae49", "g": "#d1495b"}  # by the first letter of a mask
OTHER_COLOUR = "#8d99ae"
FLOORS = (("receptive_field", 0.5), ("label_consistency", 0.0))  # a logarithmic axis has no 0


def audit_figure(told: Mapping[str, Any]) -> Figure:
    """Masks by receptive field and label consistency (medians and quartiles); level shares.

    Args:
        told: What ``m3dphormer audit --json`` prints.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    _masks(left, told)
    _levels(right, told["levels"])
    figure.suptitle(f"{told['dataset']}, {told['labels']} labels", fontsize=11)
    return figure


def _masks(ax: Axes, told: Mapping[str, Any]) -> None:
    shown: dict[tuple[float, float], list[str]] = {}
    for name, mask in told["masks"].items():
        if mask["label_consistency"] is None:
            continue
        k, rho = ([max(value, low) for value in mask[key]] for key, low in FLOORS)
        shown.setdefault((k[1], rho[1]), []).append(name)
        ax.errorbar(
            k[1],
            rho[1],
            xerr=[[k[1] - k[0]], [k[2] - k[1]]],
            yerr=[[rho[1] - rho[0]], [rho[2] - rho[1]]],
            fmt="o",
            color=COLOURS.get(name[0], OTHER_COLOUR),
            capsize=2,
        )
    for place, names in shown.items():
        ax.annotate(", ".join(names), place, xytext=(5, 5), textcoords="offset points", fontsize=9)
    ax.axhline(told["chance"], color="black", linewidth=0.8, linestyle=":")
    ax.annotate("chance", (0.01, told["chance"]), xycoords=("axes fraction", "data"), fontsize=8)
    ax.set_xscale("log")
    ax.set_ylim(-0.03, 1.09)
    ax.set_xlabel("receptive field (quartiles)")
    ax.set_ylabel("label consistency (quartiles)")
    ax.set_title("The principle: up and to the right", fontsize=10, loc="left")
    ax.spines[["top", "right"]].set_visible(False)


def _levels(ax: Axes, levels: Mapping[str, float]) -> None:
    bars = ax.bar(list(levels), list(levels.values()), color=[COLOURS[name[0]] for name in levels])
    ax.bar_label(bars, fmt=lambda share: f"{share:.0%}", fontsize=9)
    ax.set_ylim(0, 1)
    ax.set_ylabel("share of nodes")
    ax.set_title("Level that a node should take", fontsize=10, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
