"""How much of each expert nodes take: a stacked bar for every group of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from m3dphormer.report.charts.svg import WIDTH, drawing, element, hint
from m3dphormer.report.nodes import Bin

LEFT, RIGHT, TOP, ROW, BAR = 92, 64, 22, 30, 22
TOLD = 0.12  # a share that has room for its number


def gate_chart(words: str, bins: Sequence[Bin], names: Sequence[str], what: str) -> Markup:
    """One bar a bin, cut by expert.

    Args:
        words: What it shows, for who cannot see it.
        names: Of the experts.
        what: What the nodes of a bin have in common.
    """
    height = TOP + ROW * len(bins)
    heads = (
        element("text", what, x=LEFT - 8, y=12, text_anchor="end"),
        element("text", "nodes", x=WIDTH, y=12, text_anchor="end"),
    )
    bars = (part for i, one in enumerate(bins) for part in _bar(one, names, TOP + ROW * i))
    return drawing(WIDTH, height, words, *heads, *bars)


def _bar(one: Bin, names: Sequence[str], top: float) -> Iterator[Markup]:
    base = top + BAR / 2 + 4
    yield element("text", one.label, x=LEFT - 8, y=base, text_anchor="end", class_="strong")
    yield element("text", f"{one.nodes:,}", x=WIDTH, y=base, text_anchor="end")
    left, room = float(LEFT), WIDTH - LEFT - RIGHT
    for i, (name, share) in enumerate(zip(names, one.shares, strict=True)):
        width = room * share
        told = hint(f"{one.label}: {name} {share:.1%}")
        yield element("rect", told, x=left, y=top, width=width, height=BAR, class_=f"fill c{i % 6}")
        if share >= TOLD:
            yield element(
                "text",
                f"{share:.0%}",
                x=left + width / 2,
                y=base,
                text_anchor="middle",
                class_=f"on c{i % 6}",
            )
        left += width
