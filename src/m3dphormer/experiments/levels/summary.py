"""Means over splits with 95 % intervals: what the experiment says."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import t

AUCS = ("explains_auc", "predicts_auc")


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a graph and mask (or way to join masks), and one over all, for each number.

    Where a split was run more than once, its last rows count. ``low`` and ``high`` bound the mean
    over splits (Student's t); NaN for a single split. The last rows are the mean AUC over all
    graphs and masks, with an interval over the splits they share.
    """
    latest = rows.drop_duplicates(["dataset", "split", "what"], keep="last")
    numbers = latest.melt(
        id_vars=["dataset", "split", "what"], value_vars=["accuracy", *AUCS], var_name="number"
    ).dropna(subset="value")
    table = [
        {"dataset": dataset, "what": what, "number": number, **_interval(group["value"])}
        for (dataset, what, number), group in numbers.groupby(
            ["dataset", "what", "number"], sort=False
        )
    ]
    for name in AUCS:
        chosen = numbers[numbers["number"] == name]
        cells = chosen.pivot_table("value", "split", ["dataset", "what"])  # [splits, cells]
        shared = cells.dropna().mean(axis=1)
        told = {"dataset": "all", "what": "all", "number": name, **_interval(shared)}
        table.append({**told, "mean": cells.mean().mean()})
    return pd.DataFrame(table)


def _interval(values: pd.Series) -> dict[str, float]:
    """Number, mean and 95 % interval of some values."""
    count, mean = len(values), float(values.mean())
    if count < 2:
        return {"splits": count, "mean": mean, "low": np.nan, "high": np.nan}
    half = float(t.ppf(0.975, count - 1) * values.std(ddof=1) / np.sqrt(count))
    return {"splits": count, "mean": mean, "low": mean - half, "high": mean + half}
