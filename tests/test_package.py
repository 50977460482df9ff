from __future__ import annotations

from importlib.metadata import version

import m3dphormer as m3d


def test_all_public_names_exist_and_the_version_is_that_of_the_package() -> None:
    assert all(hasattr(m3d, name) for name in m3d.__all__)
    assert m3d.__version__ == version("m3dphormer")


def test_models_and_masks_are_listed() -> None:
    assert "m3dphormer" in m3d.list_models()
    assert {"l2", "c4", "g3"} <= set(m3d.masks.names())
