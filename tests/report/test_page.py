from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from m3dphormer.report import write_report
from m3dphormer.report.gather import Report, gather
from m3dphormer.report.page import duration, meaning, percent, render, size
from m3dphormer.report.scores import score_classes

VOID = {"meta", "link", "img"}


class Reader(HTMLParser):
    """Checks that tags close in order, and keeps addresses, ids and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        told = dict(attrs)
        self.addresses += [str(told[key]) for key in ("src", "href") if key in told]
        self.ids |= {str(told["id"])} if "id" in told else set()
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def report(plain_run: Path) -> Report:
    return gather(plain_run)


SECTIONS = {"curves", "classes", "gates", "masks", "hardest", "cost", "settings"}


def test_the_page_is_whole_and_asks_nobody_for_anything(report: Report) -> None:
    page = render(report)
    reader = read(page)
    assert reader.ids == SECTIONS
    assert "script" not in reader.tags
    assert all(address.startswith(("#", "data:")) for address in reader.addresses)
    assert not re.search(r"https?://|@import|url\(", page)
    assert {f"#{name}" for name in SECTIONS} <= set(reader.addresses)


def test_names_are_escaped(odd_run: Path) -> None:
    page = render(gather(odd_run))
    reader = read(page)
    assert not {"script", "b"} & reader.tags
    assert "<script>alert(1)</script>" in reader.text
    assert "One seed" in reader.text


def test_parts_that_are_not_there_leave_no_trace(report: Report) -> None:
    bare = replace(
        report,
        graph=None,
        guess=None,
        confusion=None,
        classes=[],
        gate_names=(),
        gates=[],
        pictures=[],
        audit=None,
        hardest=[],
        missing=["The graph is gone."],
    )
    reader = read(render(bare))
    assert reader.ids == {"curves", "cost", "settings"}
    assert "The graph is gone." in reader.text
    ungated = replace(
        report,
        gate_names=(),
        gates=[],
        hardest=[replace(one, gates=()) for one in report.hardest],
    )
    assert read(render(ungated)).ids == SECTIONS - {"gates"}


def test_forty_classes_find_room(report: Report) -> None:
    counts = np.random.RandomState(0).randint(0, 9, (40, 40))
    counts[3] = counts[:, 3] = 0  # a class that is neither there nor predicted
    names = tuple(f"subject {i}" for i in range(40))
    classes = score_classes(counts, names)
    page = render(replace(report, labels=names, confusion=counts, classes=classes))
    assert page.count("subject 39") > 40
    assert classes[3].f1 is None


@pytest.mark.parametrize(
    ("metric", "guess", "words"),
    [
        ("accuracy", 30.2, "labels 87.3 right; always answering the most frequent class would"),
        ("accuracy", None, "it labels 87.3 right."),
        ("f1", 9.0, "F1 on the test nodes is 87.3 of 100; always answering"),
        ("roc_auc", 50.0, "ranked higher in 87.3 of 100 cases; a coin would get 50."),
    ],
)
def test_the_score_is_told_in_words(
    report: Report, metric: str, guess: float | None, words: str
) -> None:
    told = replace(report, metric=metric, mean=87.3, guess=guess)
    assert words in meaning(told)


def test_a_share_that_is_not_zero_never_reads_zero() -> None:
    assert [percent(s, 2) for s in (0.5, 0.00001, 0.0, None)] == [
        "50.00 %",
        "< 0.01 %",
        "0.00 %",
        "–",
    ]


def test_times_and_sizes_have_units() -> None:
    seconds = (0.0123, 4.56, 75, 3900)
    assert [duration(s) for s in seconds] == ["12.3 ms", "4.56 s", "1 min 15 s", "1 h 5 min"]
    assert [size(n) for n in (312_000_000, 2_340_000_000, None)] == ["312 MB", "2.3 GB", "–"]


def test_the_report_is_written_where_it_was_asked_for(plain_run: Path, tmp_path: Path) -> None:
    written = write_report(plain_run, out=tmp_path / "mine.html")
    assert written.report == str(tmp_path / "mine.html")
    assert written.missing == []
    assert (tmp_path / "mine.html").read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.html"]
