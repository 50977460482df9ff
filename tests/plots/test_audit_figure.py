from __future__ import annotations

import json
from pathlib import Path

from m3dphormer.graph import load
from m3dphormer.plots.audit import audit_figure
from m3dphormer.theory import audit


def test_the_figure_shows_every_mask_and_level_from_plain_numbers(tmp_path: Path) -> None:
    told = json.loads(json.dumps(audit(load("hierarchy")).as_dict()))
    figure = audit_figure(told)
    left, right = figure.axes
    words = ", ".join(text.get_text() for text in left.texts)
    assert {"l1", "l2", "c3", "c4", "g1", "g2", "g3"} <= set(words.split(", "))
    assert "c1" not in words  # no real node looks through it
    heights = [bar.get_height() for bar in right.patches]
    assert heights == list(told["levels"].values())
    figure.savefig(tmp_path / "audit.png")
    assert (tmp_path / "audit.png").stat().st_size > 10_000
