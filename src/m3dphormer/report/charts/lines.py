"""Curves over epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from m3dphormer.report.charts.svg import WIDTH, Scale, drawing, element, hint, number

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 250, 44, 10, 10, 38
DASH = 16  # stands for a line of one point
POINTS = 300  # of a line; more could not be told apart


@dataclass(frozen=True)
class Line:
    """One curve.

    Args:
        points: x and y.
        colour: Its number among the page's colours.
        words: What the pointer tells.
    """

    points: Sequence[tuple[float, float]]
    colour: int
    words: str


@dataclass(frozen=True)
class Mark:
    """A dot on a curve."""

    x: float
    y: float
    colour: int
    words: str


def line_chart(words: str, lines: Sequence[Line], marks: Sequence[Mark], below: str) -> Markup:
    """Thin lines, one for each seed and part, and dots where something was chosen.

    Args:
        words: What it shows, for who cannot see it.
        below: What runs along the x axis.
    """
    across = [x for line in lines for x, _ in line.points]
    room = 0.5 if min(across) == max(across) else 0.0
    x = Scale(min(across) - room, max(across) + room, LEFT, WIDTH - RIGHT)
    y = Scale.around([y for line in lines for _, y in line.points], HEIGHT - BOTTOM, TOP)
    drawn = [
        *(_grid_line(y(tick), number(tick)) for tick in y.ticks()),
        *(
            element("text", number(tick), x=x(tick), y=HEIGHT - BOTTOM + 16, text_anchor="middle")
            for tick in x.ticks(least=1)
        ),
        element("text", below, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 4, text_anchor="middle"),
        *(
            element("path", hint(line.words), d=_path(line, x, y), class_=f"line c{line.colour}")
            for line in lines
        ),
        *(
            element("circle", hint(m.words), cx=x(m.x), cy=y(m.y), r=4, class_=f"mark c{m.colour}")
            for m in marks
        ),
    ]
    return drawing(WIDTH, HEIGHT, words, *drawn)


def _grid_line(y: float, text: str) -> Markup:
    line = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
    return line + element("text", text, x=LEFT - 6, y=y + 4, text_anchor="end")


def _path(line: Line, x: Scale, y: Scale) -> str:
    stride = -(-len(line.points) // POINTS)
    kept = [*line.points[:-1:stride], line.points[-1]]
    if len(kept) == 1:
        return f"M{x(kept[0][0]) - DASH / 2:.1f} {y(kept[0][1]):.1f}h{DASH}"
    return "M" + " ".join(f"{x(px):.1f} {y(py):.1f}" for px, py in kept)
