"""The report in a real Chromium: drawn, silent, and fit for a phone."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from browser import Browser, find_chromium
from m3dphormer.report import write_report

WIDE, NARROW = 1280, 390
MARKS = "path.line, circle, rect"
BOXES = f"""
[...document.querySelectorAll("svg")].map(svg => {{
  const box = svg.getBoundingClientRect();
  return {{
    words: svg.getAttribute("aria-label"),
    top: box.top + scrollY, left: box.left, width: box.width, height: box.height,
    marks: [...svg.querySelectorAll({MARKS!r})].map(mark => {{
      const own = mark.getBoundingClientRect();
      return Math.max(own.width, own.height);
    }}),
  }};
}})
"""
TALKS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module", params=["plain_run", "odd_run"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(request.getfixturevalue(request.param), out=path)
    return path


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_is_silent_and_loads_nothing_but_itself(
    browser: Browser, page: Path, width: int
) -> None:
    browser.open(page, width)
    assert [event for event in browser.events if event["method"] in TALKS] == []
    asked = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert [address for address in asked if not address.startswith("data:")] == [page.as_uri()]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_chart_is_drawn(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width, dark=dark)
    charts = browser.evaluate(BOXES)
    seeds = browser.evaluate("document.querySelectorAll('#cost tbody tr').length")
    assert len(charts) == 2 + 1 + 2 * 2 + (seeds > 1)  # curves, matrix, gates, seeds
    image = np.asarray(Image.open(io.BytesIO(browser.screenshot())).convert("RGB"), dtype=int)
    for chart in charts:
        assert chart["marks"], chart["words"]
        assert min(chart["marks"]) > 0.5, chart["words"]
        top, left = round(chart["top"]), round(chart["left"])
        cut = image[top : top + round(chart["height"]), left : left + round(chart["width"])]
        coloured = np.ptp(cut, axis=2) > 40  # marks are; text and grid are grey
        assert coloured.sum() > 20, chart["words"]
    pictures = browser.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert len(pictures) == 3
    assert min(pictures) > 300


def test_dark_mode_is_dark(browser: Browser, page: Path) -> None:
    lightness = []
    for dark in (False, True):
        browser.open(page, WIDE, dark=dark)
        image = Image.open(io.BytesIO(browser.screenshot())).convert("L")
        lightness.append(float(np.median(np.asarray(image))))
    assert lightness[0] > 200
    assert lightness[1] < 60


def test_a_phone_scrolls_in_one_direction_only(browser: Browser, page: Path) -> None:
    browser.open(page, NARROW)
    assert browser.evaluate("innerWidth") == NARROW
    assert browser.evaluate("document.documentElement.scrollWidth") <= NARROW
    wider = """
    [...document.querySelectorAll("main *")].filter(part =>
      !part.closest(".scroll, svg, pre") && part.getBoundingClientRect().right > innerWidth + 0.5
    ).map(part => part.outerHTML.slice(0, 80))
    """
    assert browser.evaluate(wider) == []
    smallest = browser.evaluate(
        "Math.min(...[...document.querySelectorAll('#gates svg text, #curves svg text')]"
        ".map(text => text.getBoundingClientRect().height))"
    )
    assert smallest >= 8  # of a line of text, in pixels
