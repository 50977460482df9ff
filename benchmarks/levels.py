"""Does the vote know where a level is right? Appends to results/levels.csv, sums it up.

A run that was ended goes on where it was: trained pieces lie in runs/levels, finished splits in
the csv. results/levels-summary.csv has means and intervals over all rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from m3dphormer.experiments.levels import DATASETS, run_levels, summarise

TARGET = Path(__file__).resolve().parent.parent / "results" / "levels.csv"


def main() -> None:
    """Run the graphs that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--datasets", default=",".join(DATASETS), help="comma-separated")
    parser.add_argument("--splits", type=int, default=3)
    chosen = parser.parse_args()
    rows = run_levels(
        chosen.datasets.split(","), TARGET, splits=chosen.splits, root=chosen.root, watch=print
    )
    summary = summarise(rows)
    summary.to_csv(TARGET.with_name("levels-summary.csv"), index=False, float_format="%.4f")
    print(summary.to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
