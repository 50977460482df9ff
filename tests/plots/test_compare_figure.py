from __future__ import annotations

from pathlib import Path
from typing import Any

from m3dphormer.plots.compare import compare_figure


def model(name: str, mean: float, **changes: Any) -> dict[str, Any]:
    told = {"model": name, "mean": mean, "std": 1.5, "seconds_per_epoch": 0.1, "paper": None}
    return {**told, **changes}


def test_the_figure_shows_every_model_at_its_score_and_time(tmp_path: Path) -> None:
    models = [
        model("gcn", 80.0, paper=(81.0, 1.0)),
        model("mowst", 85.0, seconds_per_epoch=0.4, std=None),
    ]
    told = {"dataset": "cora", "metric": "accuracy", "seeds": 5, "best": "gcn", "models": models}
    figure = compare_figure(told)
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts] == ["gcn", "mowst"]
    assert [text.xy for text in ax.texts] == [(0.1, 80.0), (0.4, 85.0)]
    places = [tuple(line.get_xydata()[0]) for line in ax.lines if len(line.get_xydata()) == 1]
    assert (0.1, 81.0) in places  # the paper's
    assert "5 seeds" in ax.get_title(loc="left")
    figure.savefig(tmp_path / "compare.png")
    assert (tmp_path / "compare.png").stat().st_size > 5_000
