"""The score of every seed, and the interval of their mean."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from m3dphormer.report.charts.svg import WIDTH, Scale, drawing, element, hint, number

HEIGHT, SIDE, MIDDLE = 84, 16, 34


def seed_chart(scores: Sequence[float], mean: float, interval: tuple[float, float]) -> Markup:
    """A dot a seed, a line for the mean, a band for its interval; in percent."""
    low, high = interval
    x = Scale.around([*scores, low, high], SIDE, WIDTH - SIDE)
    words = f"Mean {mean:.2f}, 95 % interval {low:.2f} to {high:.2f}"
    drawn = [
        element(
            "rect",
            hint(words),
            x=x(low),
            y=MIDDLE - 20,
            width=max(x(high) - x(low), 1.0),
            height=40,
            rx=4,
            class_="band",
        ),
        element("line", x1=x(mean), x2=x(mean), y1=MIDDLE - 20, y2=MIDDLE + 20, class_="mean"),
        *(
            element(
                "circle", hint(f"seed {i}: {score:.2f}"), cx=x(score), cy=MIDDLE, r=5, class_="dot"
            )
            for i, score in enumerate(scores)
        ),
        *(
            element("text", number(tick), x=x(tick), y=HEIGHT - 8, text_anchor="middle")
            for tick in x.ticks()
        ),
    ]
    return drawing(WIDTH, HEIGHT, f"Scores of {len(scores)} seeds. {words}", *drawn)
