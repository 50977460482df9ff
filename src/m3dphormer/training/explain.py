"""Whom a node attends to, as a table with the user's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from m3dphormer.errors import UserError
from m3dphormer.models import Attention
from m3dphormer.training.unseen import as_text

KINDS = {"nodes": "node", "clusters": "cluster", "classes": "class", "virtual": "virtual"}


def position(name: str, ids: Sequence[object], node: object) -> int:
    """Where a node stands, by its id."""
    found = np.flatnonzero(as_text(ids) == str(node))
    if not len(found):
        raise UserError(f"{name} has no node {node!r}; its first is {ids[0]!r}.")
    return int(found[0])


def table(
    layers: Sequence[Sequence[Attention]], names: Mapping[str, Sequence[object]], top: int | None
) -> pd.DataFrame:
    """One row a key, the strongest first within each layer and expert.

    Args:
        layers: By layer and expert.
        names: What the keys of each role are called.
        top: How many keys of each; None: all.
    """
    parts = []
    for number, experts in enumerate(layers, start=1):
        for one in experts:
            weights = one.weights.cpu().numpy()  # [k, H]
            keys = zip(one.role, one.key.tolist(), strict=True)
            rows = pd.DataFrame({"layer": number, "expert": one.expert}, index=range(len(weights)))
            rows["kind"] = [KINDS[role] for role in one.role]
            rows["key"] = [names[role][key] if role in names else key for role, key in keys]
            rows["weight"] = weights.mean(axis=1)
            for head, column in enumerate(weights.T, start=1):
                rows[f"head_{head}"] = column
            parts.append(rows.sort_values("weight", ascending=False, kind="stable")[:top])
    return pd.concat(parts, ignore_index=True)
