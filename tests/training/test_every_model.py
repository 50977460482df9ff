"""What holds for every registered model once it is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import m3dphormer as m3d


@pytest.mark.parametrize("name", m3d.list_models())
def test_digits_are_learned_saved_and_loaded(name: str, tmp_path: Path) -> None:
    data = m3d.load("digits")
    clf = m3d.NodeClassifier(name, lr=0.01, epochs=80).fit(data)
    assert clf.score(data, "test") > 0.95
    clf.save(tmp_path / "run")
    loaded = m3d.NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(loaded.predict_proba(data), clf.predict_proba(data))
