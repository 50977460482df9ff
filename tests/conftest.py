"""What every test shares: a cache of its own, and the real benchmark files where there are any."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("M3DPHORMER_DATA") or PROJECT.parent / "shared" / "data")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests out of the user's cache, and the user's folders out of the tests."""
    monkeypatch.setenv("M3DPHORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("M3DPHORMER_DATA", raising=False)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of raw benchmark files: ``$M3DPHORMER_DATA``, else ``../shared/data``."""
    if not (DATA / "Cora" / "raw").is_dir():
        pytest.skip(f"no raw benchmark files in {DATA} (set M3DPHORMER_DATA)")
    return DATA
