from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import m3dphormer as m3d


def test_all_public_names_exist_and_the_version_is_that_of_the_package() -> None:
    assert all(hasattr(m3d, name) for name in m3d.__all__)
    assert m3d.__version__ == version("m3dphormer")


def test_public_names_are_listed_once_and_imported_when_asked_for() -> None:
    listed = [name for names in m3d.ROOMS.values() for name in names]
    assert sorted([*listed, "masks", "theory"]) == sorted(m3d.__all__)
    assert set(m3d.__all__) <= set(dir(m3d))
    code = "import sys, m3dphormer; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    with pytest.raises(AttributeError, match="'m3dphormer' has no attribute 'lod'"):
        m3d.lod  # noqa: B018


def test_models_and_masks_are_listed() -> None:
    assert "m3dphormer" in m3d.list_models()
    assert {"l2", "c4", "g3"} <= set(m3d.masks.names())
