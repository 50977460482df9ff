"""The table: ours beside the paper's, and whether the paper's order holds."""

from __future__ import annotations

import pandas as pd

from m3dphormer.experiments.ablations.paper import PAPER, Score
from m3dphormer.experiments.ablations.variants import FULL


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a graph and variant.

    ``less than full`` is the full model's mean minus the variant's. ``order`` tells, where the
    paper's gap exceeds the larger of its two standard deviations, whether ours has its sign.

    Args:
        rows: From ``run_ablations``, one a seed.
    """
    table = []
    for dataset, of_dataset in rows.groupby("dataset", sort=False):
        scores = of_dataset.groupby("variant", sort=False)["test"]
        ours = {str(name): (float(one.mean()), float(one.std(ddof=1))) for name, one in scores}
        full, printed_full = ours.get(FULL), PAPER[FULL].get(str(dataset))
        for variant, score in ours.items():
            printed = PAPER.get(variant, {}).get(str(dataset))
            row = {
                "dataset": dataset,
                "variant": variant,
                "seeds": int((of_dataset["variant"] == variant).sum()),
                "ours": _said(score),
                "paper": _said(printed),
            }
            if variant != FULL:
                row |= {
                    "less than full": _gap(full, score),
                    "paper's": _gap(printed_full, printed),
                    "order": _order(full, score, printed_full, printed),
                }
            table.append(row)
    return pd.DataFrame(table).fillna("")


def _said(score: Score | None) -> str:
    if score is None:
        return ""
    mean, std = score
    return f"{mean:.2f} ± {std:.2f}" if std == std else f"{mean:.2f}"  # NaN: a single seed


def _gap(full: Score | None, score: Score | None) -> str:
    return "" if full is None or score is None else f"{full[0] - score[0]:+.2f}"


def _order(
    full: Score | None, score: Score, printed_full: Score | None, printed: Score | None
) -> str:
    """Whether the order of two means is the paper's, where the paper's is clear."""
    if full is None or printed_full is None or printed is None:
        return ""
    gap = printed_full[0] - printed[0]
    if abs(gap) <= max(printed_full[1], printed[1]):
        return "open in the paper"
    return "holds" if gap * (full[0] - score[0]) > 0 else "does not hold"
