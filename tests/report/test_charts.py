from __future__ import annotations

import math
import xml.etree.ElementTree as xml

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from m3dphormer.report.charts import (
    Line,
    Mark,
    confusion_chart,
    gate_chart,
    line_chart,
    seed_chart,
)
from m3dphormer.report.charts.lines import POINTS
from m3dphormer.report.charts.svg import Scale, element
from m3dphormer.report.nodes import Bin


def parts(svg: str, name: str) -> list[xml.Element]:
    return list(xml.fromstring(svg).iter(name))


def test_text_and_attributes_are_escaped() -> None:
    said = element("text", '<b>"&', class_='"><script>')
    assert "<b>" not in said
    assert "<script>" not in said
    read = xml.fromstring(said)
    assert (read.text, read.get("class")) == ('<b>"&', '"><script>')


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_few_round_and_within(low: float, span: float, most: int) -> None:
    scale = Scale(low, low + span, 0, 100)
    ticks = scale.ticks(most)
    assert 0 <= len(ticks) <= most + 1
    slack = 1e-9 * (abs(low) + span)
    assert all(low - slack <= tick <= low + span + slack for tick in ticks)
    for step in np.diff(ticks)[:1]:
        leading = step / 10 ** math.floor(math.log10(step) + 1e-9)
        assert min(abs(leading - nice) for nice in (1, 2, 5, 10)) < 1e-3 * (1 + abs(low) / span)


def test_a_line_goes_through_its_points_and_ends_at_the_last() -> None:
    points = [(1.0, 10.0), (2.0, 30.0), (3.0, 20.0)]
    svg = line_chart("words", [Line(points, 1, "told")], [Mark(2, 30, 1, "kept")], "epoch")
    (path,) = parts(svg, "path")
    numbers = [float(n) for n in path.get("d", "").lstrip("M").split()]
    x, y = numbers[::2], numbers[1::2]
    assert x == sorted(x)
    assert y[1] < y[2] < y[0]  # up is less
    (dot,) = parts(svg, "circle")
    assert float(dot.get("cx", 0)) == pytest.approx(x[1], abs=0.1)
    assert float(dot.get("cy", 0)) == pytest.approx(y[1], abs=0.1)
    assert [title.text for title in parts(svg, "title")] == ["told", "kept"]


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0], [math.nan, 5.0]])
def test_a_chart_without_extent_is_still_drawn(values: list[float]) -> None:
    finite = [(float(i), v) for i, v in enumerate(values, start=1) if math.isfinite(v)]
    svg = line_chart("words", [Line(finite, 0, "told")], [], "epoch")
    assert "nan" not in svg
    assert len(parts(svg, "path")) == 1


def test_a_long_line_is_thinned_and_keeps_its_ends() -> None:
    points = [(float(i), float(i)) for i in range(1, 10_001)]
    (path,) = parts(line_chart("words", [Line(points, 0, "told")], [], "epoch"), "path")
    numbers = path.get("d", "").lstrip("M").split()
    assert len(numbers) <= 2 * (POINTS + 1)
    assert (numbers[0], numbers[-2]) == ("44.0", "430.0")


def test_the_seeds_stand_around_their_mean() -> None:
    svg = seed_chart([80.0, 90.0], 85.0, (70.0, 100.0))
    dots = [float(dot.get("cx", 0)) for dot in parts(svg, "circle")]
    (mean,) = parts(svg, "line")
    assert float(mean.get("x1", 0)) == pytest.approx(sum(dots) / 2)
    (band,) = parts(svg, "rect")
    assert float(band.get("x", 0)) < min(dots)
    assert float(band.get("x", 0)) + float(band.get("width", 0)) > max(dots)


def test_the_bars_of_a_group_fill_the_row_by_share() -> None:
    bins = [Bin("1 to 2", 7, (0.5, 0.3, 0.2)), Bin("3", 2, (0.05, 0.05, 0.9))]
    svg = gate_chart("words", bins, ("local", "cluster", "global"), "degree")
    widths = np.array([float(bar.get("width", 0)) for bar in parts(svg, "rect")]).reshape(2, 3)
    assert widths / widths.sum(axis=1, keepdims=True) == pytest.approx(
        np.array([one.shares for one in bins])
    )
    texts = [text.text for text in parts(svg, "text")]
    assert {"50%", "30%", "20%", "90%", "1 to 2", "7"} <= set(texts)
    assert "5%" not in texts  # no room; the pointer tells it
    assert "3: local 5.0%" in [title.text for title in parts(svg, "title")]


@pytest.mark.parametrize("classes", [2, 7, 40])
def test_the_confusion_matrix_has_a_square_for_every_pair(classes: int) -> None:
    counts = np.random.RandomState(0).randint(0, 30, (classes, classes))
    names = [f"class {i} & <friends>" for i in range(classes)]
    svg = confusion_chart(counts, names)
    squares = parts(svg, "rect")
    assert len(squares) == classes**2
    told = squares[1].find("title")
    assert told is not None
    share = counts[0, 1] / counts[0].sum()
    assert told.text == (
        f"{names[0]} taken for {names[1]}: {counts[0, 1]}, {share:.1%} of its nodes"
    )
    rights = [square for square in squares if square.get("class") == "right"]
    assert len(rights) == classes
