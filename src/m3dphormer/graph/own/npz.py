"""The user's own graph as an ``.npz`` with the keys of the heterophilous-graphs files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from m3dphormer.errors import UserError, notice
from m3dphormer.graph.own.arrays import arrays_to_raw
from m3dphormer.graph.raw import RawGraph

MASKS = ("train_masks", "val_masks", "test_masks")
KEYS = ("node_features", "node_labels", "edges", *MASKS)


def read_npz(path: Path, source: str, labels: bool = True) -> RawGraph:
    """Read ``node_labels`` [N] and ``edges`` [m, 2], ``node_features`` [N, d], masks [S, N].

    Args:
        labels: False: labels and masks are not read; N is then the number of features' rows.
    """
    arrays = _arrays(path)
    needed = "node_labels" if labels or "node_features" not in arrays else "node_features"
    missing = [key for key in (needed, "edges") if key not in arrays]
    if missing:
        raise UserError(
            f"{path} has no {missing[0]}; needed are node_features, node_labels, edges and, "
            f"for given splits, {', '.join(MASKS)}. Found {', '.join(sorted(arrays)) or 'nothing'}."
        )
    ignored = sorted(set(arrays) - set(KEYS))
    if ignored:
        notice(f"{path}: ignored {', '.join(ignored)}, which is no part of a graph here.")
    if arrays["edges"].ndim != 2 or arrays["edges"].shape[1] != 2:
        shape = list(arrays["edges"].shape)
        raise UserError(f"{path}: edges must be pairs of node positions, [m, 2]. Got {shape}.")
    return arrays_to_raw(
        path.stem,
        source,
        arrays.get("node_features"),
        arrays["edges"].T,
        arrays["node_labels"] if labels else np.full(len(arrays[needed]), -1),
        [arrays[mask].T if labels and mask in arrays else None for mask in MASKS],
        None if labels else [],
    )


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except Exception as error:  # a damaged archive can fail in any way zlib and numpy can
        if "Object arrays" in str(error):
            reason = "holds Python objects, which are not loaded; save plain arrays"
        else:
            reason = "is truncated or not an .npz file; save it again with numpy.savez"
        raise UserError(f"{path} {reason}.") from error
