"""``m3dphormer`` in this process: what it prints, where, and with which exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from m3dphormer import cli

TINY = ["--seeds", "2", "--set", "epochs=2", "--set", "hidden=8", "--set", "layers=1"]


class Command:
    """Runs ``m3dphormer`` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["m3dphormer", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = self.capsys.readouterr()
        return int(ended.value.code or 0), out, err


def write_csv(folder: Path, *, features: bool = True, **changes: str) -> None:
    rng = np.random.RandomState(0)
    folder.mkdir()
    header = "id,label,a,b" if features else "id,label"
    cells = [[f"n{i}", "xyz"[i % 3], *map(str, rng.randn(2).round(3))] for i in range(24)]
    width = 4 if features else 2
    nodes = "\n".join([header, *(",".join(row[:width]) for row in cells)])
    edges = "\n".join(["source,target", *(f"n{i},n{(i + 1) % 24}" for i in range(24))])
    (folder / "nodes.csv").write_text(changes.get("nodes") or nodes + "\n")
    (folder / "edges.csv").write_text((changes.get("edges") or edges) + changes.get("more", ""))
