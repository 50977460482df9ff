from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from m3dphormer.plots.tune import COMPLETE, PRUNED, tune_figure

TABLE = pd.DataFrame(
    {
        "number": [0, 1, 3, 4],
        "validation": [40.0, 50.0, 20.0, 45.0],
        "pruned": [None, None, "below the median", None],
        "start": ["defaults", None, None, None],
        "hidden": [64, 128, 64, 128],
        "clusters": ["auto", 32, 64, 64],
    }
)


def test_the_figure_shows_every_trial_the_best_so_far_and_every_value(tmp_path: Path) -> None:
    figure = tune_figure(TABLE, ["hidden", "clusters"])
    top, hidden, clusters = figure.axes
    (best,) = top.lines
    assert best.get_ydata().tolist() == [40, 50, 50, 50]
    complete, pruned = top.collections
    assert complete.get_offsets().tolist() == [[0, 40], [1, 50], [4, 45]]
    assert pruned.get_offsets().tolist() == [[3, 20]]
    assert COMPLETE != PRUNED
    assert [text.get_text() for text in top.texts] == ["defaults"]
    assert [tick.get_text() for tick in hidden.get_xticklabels()] == ["64", "128"]
    assert [tick.get_text() for tick in clusters.get_xticklabels()] == ["32", "64", "auto"]
    figure.savefig(tmp_path / "search.png")


@pytest.mark.parametrize("rows", [1, 4])
def test_nothing_searched_and_one_trial_can_be_drawn(tmp_path: Path, rows: int) -> None:
    tune_figure(TABLE[:rows], []).savefig(tmp_path / "search.png")
