"""What every test shares: a cache of its own, and the real benchmark files where there are any."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

from command import Command
from runs import train_odd, train_plain

PROJECT = Path(__file__).resolve().parent.parent
hypothesis.settings.register_profile("ours", deadline=None)  # a busy machine is not a failure
hypothesis.settings.load_profile("ours")
DATA = Path(os.environ.get("M3DPHORMER_DATA") or PROJECT.parent / "shared" / "data")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests out of the user's cache, and the user's folders out of the tests."""
    monkeypatch.setenv("M3DPHORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("M3DPHORMER_DATA", raising=False)


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """``m3dphormer`` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of raw benchmark files: ``$M3DPHORMER_DATA``, else ``../shared/data``."""
    if not (DATA / "Cora" / "raw").is_dir():
        pytest.skip(f"no raw benchmark files in {DATA} (set M3DPHORMER_DATA)")
    return DATA


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    return _trained(train_plain, tmp_path_factory)


@pytest.fixture(scope="session")
def odd_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run on a graph with odd names."""
    return _trained(train_odd, tmp_path_factory)


def _trained(train: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a cache of its own, for it outlives a single test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("M3DPHORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        return train(tmp_path_factory.mktemp("trained"))
