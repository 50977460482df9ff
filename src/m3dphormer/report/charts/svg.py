"""What every chart is made of: elements whose text is escaped, scales and ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 440  # of most charts: two beside each other on a desk, one on a phone


def element(name: str, *children: str, **attributes: object) -> Markup:
    """An element; ``stroke_width`` becomes stroke-width, ``class_`` class."""
    given = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _attribute(value))
        for key, value in attributes.items()
    )
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(name, given, inside)


def drawing(
    width: float, height: float, words: str, *children: Markup, least: float = 0.0
) -> Markup:
    """The whole chart, as wide as there is room.

    Args:
        words: What it shows, for who cannot see it.
        least: Share of ``width`` below which it does not shrink.
    """
    box = f"0 0 {_attribute(width)} {_attribute(height)}"
    style = f"min-width:{least * width:.0f}px;max-width:{1.25 * width:.0f}px"
    return element(
        "svg",
        *children,
        viewBox=box,
        role="img",
        aria_label=words,
        style=style,
    )


def hint(words: str) -> Markup:
    """What the pointer tells."""
    return element("title", words)


@dataclass(frozen=True)
class Scale:
    """From numbers to places, straight."""

    low: float
    high: float
    start: float
    stop: float

    @classmethod
    def around(cls, values: Sequence[float], start: float, stop: float) -> Scale:
        """All finite values, and a little room; one value alone stands in the middle."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        room = 0.06 * (high - low) or 0.5
        return cls(low - room, high + room, start, stop)

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self, most: int = 5, least: float = 0.0) -> list[float]:
        """Round numbers within, at most about ``most``, steps of ``least`` or more."""
        rough = max((self.high - self.low) / most, least)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.999)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [k * step for k in range(first, last + 1)]


def number(value: float) -> str:
    """A tick: 0.25, 1.5, 1,000."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def shortened(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _attribute(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
