"""What a search found: the trials as a table, the best one as a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from m3dphormer.errors import UserError
from m3dphormer.training.files import write_table
from m3dphormer.training.recipes import write_recipe
from m3dphormer.training.study import Ended

DEFAULTS = "defaults"  # the name of the trial that the others must beat


@dataclass(frozen=True)
class Tuned:
    """A search so far.

    Args:
        splits: The splits that every trial was trained on.
        searched: The settings that were searched.
        trials: All that count, by number, of all processes.
        interrupted: Whether Ctrl-C ended it.
    """

    dataset: str
    model: str
    metric: str
    study: str
    splits: list[int]
    searched: list[str]
    trials: list[Ended]
    folder: Path
    interrupted: bool

    @property
    def best(self) -> Ended:
        """The complete trial with the best validation, the first of equals."""
        complete = [trial for trial in self.trials if trial.pruned is None]
        if not complete:
            reasons = {trial.pruned for trial in self.trials}
            raise UserError(f"No trial was complete: {'; '.join(map(str, reasons)) or 'no time'}")
        return max(complete, key=lambda trial: (trial.validation, -trial.number))

    @property
    def defaults(self) -> float | None:
        """Validation of the default settings; None: they were not tried yet."""
        return next((t.validation for t in self.trials if t.start == DEFAULTS), None)

    @property
    def pruned(self) -> int:
        """How many trials were pruned."""
        return sum(trial.pruned is not None for trial in self.trials)

    def table(self) -> pd.DataFrame:
        """One row a trial: number, validation, pruned, start, seconds, settings..."""
        first = ("number", "validation", "pruned", "start", "seconds")
        rows = [{**{key: getattr(t, key) for key in first}, **t.settings} for t in self.trials]
        return pd.DataFrame(rows)

    def as_dict(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        best = self.best
        return {
            "dataset": self.dataset,
            "model": self.model,
            "metric": self.metric,
            "study": self.study,
            "splits": self.splits,
            "trials": len(self.trials),
            "pruned": self.pruned,
            "defaults": self.defaults,
            "best": best.validation,
            "best_trial": best.number,
            "settings": best.settings,
            "recipe": str(self.folder / "recipe.toml"),
            "interrupted": self.interrupted,
        }

    def write(self) -> None:
        """Write trials.csv and recipe.toml."""
        best, splits = self.best, ", ".join(map(str, self.splits))
        default = "" if self.defaults is None else f"; the default settings: {self.defaults:.2f}"
        comments = [
            f"{self.model} on {self.dataset}, found by m3dphormer {version('m3dphormer')}:",
            f"study {self.study}, {len(self.trials)} trials ({self.pruned} pruned), the best is "
            f"number {best.number}:",
            f"validation {self.metric} {best.validation:.2f} on split {splits}{default}.",
        ]
        write_recipe(self.folder / "recipe.toml", best.settings, comments)
        write_table(self.folder / "trials.csv", self.table())
