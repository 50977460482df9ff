"""An audit as tables: one line a mask, a mask by homophily, a scenario, a node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from m3dphormer.masks.mask import LEVELS
from m3dphormer.theory.audit import Audit
from m3dphormer.theory.scenarios import SCENARIOS, STANDS_FOR

NOTHING = "-"


def audit_tables(audit: Audit) -> dict[str, pd.DataFrame]:
    """Readable tables by title; quartiles as "q1 q2 q3"."""
    chance = f"< 1/{round(1 / audit.chance)}"
    per_mask = [
        {
            "mask": name,
            "non-zeros": f"{one.nnz:,}",
            "density": f"{one.density:.2g}",
            "receptive field": _three(one.receptive_field, "{:,.0f}"),
            "label consistency": _three(one.label_consistency, "{:.2f}"),
            chance: _percent(one.below_chance),
            "no labelled key": _percent(one.unlabelled),
            "bounds": NOTHING if one.lower is None else f"{one.lower:.2f} to {one.upper:.2f}",
            "in domain": _percent(one.in_domain),
        }
        for name, one in audit.masks.items()
    ]
    tables = {"Masks": pd.DataFrame(per_mask), "By node homophily": _by_homophily(audit)}
    scenarios = [
        {"share": _percent(share), "scenario": SCENARIOS[name]}
        for name, share in audit.scenarios.items()
    ]
    tables["Scenarios"] = pd.DataFrame(scenarios)
    voted = {name: one.vote for name, one in audit.masks.items() if one.vote is not None}
    if voted:
        tables["Votes of the training keys, on validation nodes"] = pd.DataFrame(
            {"mask": name, "tau": vote["tau"], "accuracy": f"{vote['accuracy']:.3f}"}
            for name, vote in voted.items()
        )
    return tables


def node_table(audit: Audit, data: Data) -> pd.DataFrame:
    """One row a node: the level it should take (where its class is known) and its votes.

    ``trusted`` is the mask with the largest predicting share; ``explains`` columns are empty for
    nodes whose label the audit does not count.
    """
    ids = data.node_ids if "node_ids" in data else range(int(data.num_nodes))
    names = np.array(["", *LEVELS])
    columns: dict[str, object] = {"id": ids, "level": names[audit.level.numpy() + 1]}
    if audit.votes:
        masks = list(audit.votes)
        y = data.y.cpu().where(audit.level >= 0, -1)
        predicts = np.stack([audit.votes[name].predicts.numpy() for name in masks])
        columns["trusted"] = np.array(masks)[predicts.argmax(axis=0)]
        columns |= {f"predicts_{name}": row for name, row in zip(masks, predicts, strict=True)}
        columns |= {f"explains_{name}": audit.votes[name].explains(y).numpy() for name in masks}
    return pd.DataFrame(columns)


def _by_homophily(audit: Audit) -> pd.DataFrame:
    rows = []
    for name in STANDS_FOR.values():
        for band in audit.masks[name].by_homophily:
            low, high = band["homophily"]
            rows.append(
                {
                    "mask": name,
                    "homophily": f"{low:g} to {high:g}",
                    "nodes": band["nodes"],
                    "receptive field": _three(band["receptive_field"], "{:,.0f}"),
                    "label consistency": _three(band["label_consistency"], "{:.2f}"),
                }
            )
    return pd.DataFrame(rows)


def _three(quartiles: Sequence[float] | None, form: str) -> str:
    return NOTHING if quartiles is None else " ".join(form.format(q) for q in quartiles)


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share:.0%}"
