"""Means over splits with 95 % intervals: what the experiment says."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import t

from m3dphormer.experiments.levels.suite import LEVELS

NUMBERS = ("accuracy", "gain", "explains_auc", "predicts_auc")
OVERALL = {"gain": ["trusted"], "explains_auc": LEVELS, "predicts_auc": LEVELS}


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a graph and mask (or way to join masks), and some over all, for each number.

    Where a split was run more than once, its last rows count. ``gain`` is the accuracy of a way to
    join masks above that of always l2. ``low`` and ``high`` bound the mean over splits (Student's
    t); NaN for a single split. The last rows are means over all graphs (and masks), with an
    interval over the splits they share.
    """
    latest = rows.drop_duplicates(["dataset", "split", "what"], keep="last")
    numbers = (
        latest.assign(gain=_gains(latest))
        .melt(id_vars=["dataset", "split", "what"], value_vars=NUMBERS, var_name="number")
        .dropna(subset="value")
    )
    table = [
        {"dataset": dataset, "what": what, "number": number, **_interval(group["value"])}
        for (dataset, what, number), group in numbers.groupby(
            ["dataset", "what", "number"], sort=False
        )
    ]
    for name, whats in OVERALL.items():
        chosen = numbers[(numbers["number"] == name) & numbers["what"].isin(whats)]
        cells = chosen.pivot_table("value", "split", ["dataset", "what"])  # [splits, cells]
        shared = cells.dropna().mean(axis=1)
        what = whats[0] if len(whats) == 1 else "all"
        told = {"dataset": "all", "what": what, "number": name, **_interval(shared)}
        table.append({**told, "mean": cells.mean().mean()})
    return pd.DataFrame(table)


def _gains(latest: pd.DataFrame) -> pd.Series:
    """Accuracy of each way to join masks above that of l2 on the same split; NaN for a mask."""
    local = latest[latest["what"] == "l2"].set_index(["dataset", "split"])["accuracy"]
    same = local.reindex(pd.MultiIndex.from_frame(latest[["dataset", "split"]]))
    gains: pd.Series = latest["accuracy"] - same.to_numpy()
    return gains.mask(latest["what"].isin(LEVELS))


def _interval(values: pd.Series) -> dict[str, float]:
    """Number, mean and 95 % interval of some values."""
    count, mean = len(values), float(values.mean())
    if count < 2:
        return {"splits": count, "mean": mean, "low": np.nan, "high": np.nan}
    half = float(t.ppf(0.975, count - 1) * values.std(ddof=1) / np.sqrt(count))
    return {"splits": count, "mean": mean, "low": mean - half, "high": mean + half}
