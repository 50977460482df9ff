"""Train what is missing of the table, one saved cell at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from m3dphormer.errors import UserError, unknown
from m3dphormer.experiments.ablations.variants import VARIANTS
from m3dphormer.experiments.provenance import provenance
from m3dphormer.models.settings import at_least, plain_settings
from m3dphormer.training import Summary, train
from m3dphormer.training.files import write_table
from m3dphormer.training.recipes import find_recipe

SEEDS = 5
MODEL = "m3dphormer"
COLUMNS = ("dataset", "variant", "settings", "seed", "test", "validation")  # at least


def run_ablations(
    datasets: Sequence[str],
    target: Path,
    *,
    variants: Sequence[str] = tuple(VARIANTS),
    seeds: int = SEEDS,
    root: str | None = None,
    work: Path = Path("runs/ablations"),
    settings: Mapping[str, Any] | None = None,
    watch: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """Train each variant on each graph, append a row a seed to a csv, give the rows asked for.

    What the csv has of the same settings is not trained again; a training that was ended goes on
    where it was.

    Args:
        datasets: Names of graphs.
        target: The csv.
        variants: Names of ``VARIANTS``.
        seeds: How many; seed i is split i.
        root: Where raw benchmark files lie.
        work: Where the folders of the runs lie.
        settings: Settings that replace some of the recipes'.
        watch: Told about every finished cell.
    """
    at_least(1).check("seeds", seeds)
    for name in variants:
        if name not in VARIANTS:
            raise unknown("variant", name, VARIANTS)
    _read(target)  # a mistake is told before the work
    changed, cells = plain_settings(settings), []
    for dataset in dict.fromkeys(datasets):
        for variant in dict.fromkeys(variants):
            given = {
                **find_recipe(None, MODEL, dataset).settings,
                **changed,
                **VARIANTS[variant],
            }
            said = {
                "dataset": dataset,
                "variant": variant,
                "settings": json.dumps(given, sort_keys=True),
            }
            found = _done(target, said, seeds)
            if found is None:
                summary = _train(dataset, given, said, seeds, root, work)
                _append(target, summary, said, changed)
                watch(f"{dataset}, {variant}: {summary.mean:.2f}")
                found = _done(target, said, seeds)
            cells.append(found)
    return pd.concat(cells, ignore_index=True)


def _done(target: Path, said: Mapping[str, str], seeds: int) -> pd.DataFrame | None:
    """The rows of a cell in the csv, one a seed and each the last of its kind; None: not all."""
    rows = _read(target)
    for name, value in said.items():
        rows = rows[rows[name] == value]
    rows = rows[rows["seed"] < seeds].drop_duplicates("seed", keep="last")
    return rows.sort_values("seed") if len(rows) == seeds else None


def _train(
    dataset: str,
    settings: dict[str, Any],
    said: Mapping[str, str],
    seeds: int,
    root: str | None,
    work: Path,
) -> Summary:
    """All seeds of one cell, in a folder of its own."""
    name = hashlib.sha256(json.dumps([said, seeds], sort_keys=True).encode()).hexdigest()[:16]
    folder = work / name
    begun = (folder / "config.json").is_file()
    return train(
        dataset,
        seeds=seeds,
        settings=settings,
        root=root,
        out=str(folder),
        verbose=True,
        resume=begun,
    )


def _read(target: Path) -> pd.DataFrame:
    """The csv as it is; without one, a table without rows."""
    if not target.is_file():
        return pd.DataFrame(columns=COLUMNS)
    try:
        rows = pd.read_csv(target, dtype={"commit": str})
    except (OSError, ValueError):  # also what pandas and a wrong encoding raise
        raise UserError(f"{target} cannot be read as a csv; choose another --out.") from None
    if not set(COLUMNS) <= set(rows):
        raise UserError(f"{target} is not a table of ablations; choose another --out.")
    return rows


def _append(
    target: Path, summary: Summary, said: Mapping[str, str], changed: Mapping[str, Any]
) -> None:
    """A row a seed; the file is written anew, whole or not at all."""
    cell = f'--graphs {said["dataset"]} --variants "{said["variant"]}"'
    cell += f" --seeds {len(summary.scores)}"
    cell += "".join(f" --set {name}={value}" for name, value in changed.items())
    rows = pd.DataFrame(
        {
            **said,
            "seed": range(len(summary.scores)),
            "metric": summary.metric,
            "test": summary.scores,
            "validation": summary.validation,
            "epoch": summary.epochs,
            "seconds": summary.seed_seconds,
            "command": f"m3dphormer reproduce ablations {cell}",
            **provenance(),
        }
    ).round(4)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_table(target, pd.concat([_read(target), rows]) if target.is_file() else rows)
