from __future__ import annotations

from pathlib import Path

import pytest

from m3dphormer.graph.cache import cache_dir, write_atomically


def test_the_cache_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("M3DPHORMER_CACHE", "/own")
    assert cache_dir("raw", "cora") == Path("/own/raw/cora")
    monkeypatch.delenv("M3DPHORMER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_dir() == Path("/xdg/m3dphormer")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "m3dphormer"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file"
    write_atomically(target, lambda path: path.write_text("old"))

    def fails(path: Path) -> None:
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, fails)
    assert [p.name for p in target.parent.iterdir()] == ["file"]
    assert target.read_text() == "old"
