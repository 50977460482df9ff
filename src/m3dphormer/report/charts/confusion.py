"""The confusion matrix: rows are true classes, columns predicted ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup

from m3dphormer.report.charts.svg import drawing, element, hint, shortened

NUMBERED = 16  # classes up to which a cell has room for its number
LETTERS = 16  # of a class name
LETTER = 7.2  # pixels


def confusion_chart(counts: np.ndarray, names: Sequence[str]) -> Markup:
    """A square a pair of classes; the stronger its colour, the more of its row is there."""
    classes = len(names)
    cell = 44 if classes <= NUMBERED else 20
    short = [shortened(name, LETTERS) for name in names]
    longest = max(map(len, short))
    margin = 16 + LETTER * max(longest, len("true"))
    slanted = longest > 5 or (longest > 2 and classes > NUMBERED)
    top = 26 + (0.72 * LETTER * longest if slanted else 14)
    width = margin + cell * classes + (0.7 * margin if slanted else 4)
    right = counts.trace() / max(counts.sum(), 1)
    words = f"Confusion matrix of {classes} classes: {right:.1%} of the nodes on the diagonal"
    drawn = [
        element("text", "predicted", x=margin, y=12, class_="strong"),
        element("text", "true", x=margin - 8, y=top - 6, text_anchor="end", class_="strong"),
    ]
    for i, (text, name) in enumerate(zip(short, names, strict=True)):
        middle = cell * (i + 0.5)
        drawn.append(
            element("text", hint(name), text, x=margin - 8, y=top + middle + 4, text_anchor="end")
        )
        x, y = margin + middle, top - 6
        turned = {"transform": f"rotate(-45 {x:.0f} {y:.0f})"} if slanted else {}
        anchor = "start" if slanted else "middle"
        drawn.append(element("text", hint(name), text, x=x, y=y, text_anchor=anchor, **turned))
    drawn += _cells(counts, names, margin, top, cell)
    return drawing(width, top + cell * classes + 2, words, *drawn, least=0.65)


def _cells(
    counts: np.ndarray, names: Sequence[str], left: float, top: float, cell: int
) -> Iterator[Markup]:
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for (row, column), count in np.ndenumerate(counts):
        share = shares[row, column]
        x, y = left + cell * column, top + cell * row
        told = f"{names[row]} taken for {names[column]}: {count:,}, {share:.1%} of its nodes"
        # The root lifts rare mistakes, which would else all look alike.
        yield element(
            "rect",
            hint(told),
            x=x + 1,
            y=y + 1,
            width=cell - 2,
            height=cell - 2,
            rx=3,
            fill_opacity=0.06 + 0.94 * float(share) ** 0.5 if count else 0.06,
            class_="right" if row == column else "wrong",
        )
        if count and len(names) <= NUMBERED:
            yield element(
                "text",
                hint(told),
                f"{count}",
                x=x + cell / 2,
                y=y + cell / 2 + 4,
                text_anchor="middle",
                class_="deep" if share > 0.45 else "strong",
            )
