"""Means over splits with 95 % intervals: what the experiment says."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import t

AUCS = ("explains_auc", "predicts_auc")


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a graph and mask (or way to join masks), and one over all, for each number.

    ``low`` and ``high`` bound the mean over splits (Student's t); NaN for a single split. The last
    rows are the mean AUC over every graph and mask, each split counted once.
    """
    numbers = rows.melt(
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
        by_split = chosen.groupby("split")["value"].mean()
        told = {"dataset": "all", "what": "all", "number": name, **_interval(by_split)}
        table.append({**told, "mean": chosen["value"].mean()})
    return pd.DataFrame(table)


def _interval(values: pd.Series) -> dict[str, float]:
    count, mean = len(values), float(values.mean())
    if count < 2:
        return {"splits": count, "mean": mean, "low": np.nan, "high": np.nan}
    half = float(t.ppf(0.975, count - 1) * values.std(ddof=1) / np.sqrt(count))
    return {"splits": count, "mean": mean, "low": mean - half, "high": mean + half}
