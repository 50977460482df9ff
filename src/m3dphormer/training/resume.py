"""Which run to go on with, and whether what is asked for now is what it was begun with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from m3dphormer.errors import UserError, notice
from m3dphormer.training.files import read_json

SAME = ("model", "metric", "seeds", "graph_hash")  # of a record, beside its settings
TASK = "task_hash"  # likewise, in the records of newer runs: graph, labels and split
NEAR = ("device", "threads", "versions")  # what may change the last bits
RECORD = {*SAME, *NEAR, "settings", "given"}  # what every record has


@dataclass(frozen=True)
class Begun:
    """A run that was begun, and its record."""

    folder: Path
    record: dict[str, Any]

    @property
    def is_run(self) -> bool:
        """Whether the record is one that ``train`` wrote."""
        return self.record.keys() >= RECORD

    @property
    def finished(self) -> bool:
        """Whether all its seeds are done."""
        return (self.folder / "summary.json").is_file()

    def go_on(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The record to go on with; refuses other settings, tells of what may change the last bits.

        Args:
            record: What a run begun now would be recorded as.
        """
        now: dict[str, Any] = json.loads(json.dumps(record))
        for name, then, other in [
            *_differences(self.record, now, SAME),
            *_differences(self.record, now, self.record.keys() & {TASK}),
            *_differences(self.record["settings"], now["settings"], now["settings"]),
        ]:
            raise UserError(
                f"{self.folder} was begun with {name}={then}, not {other}; go on with that, or "
                "leave --resume out."
            )
        for name, then, other in _differences(self.record, now, NEAR):
            words = f"{self.folder} was begun with {name}={then}, not {other}"
            notice(f"{words}; the last bits may differ.")
        return self.record


def find_run(out: str | None, model: str, graph_hash: str) -> Begun | None:
    """The run in or under a folder that was begun last, an unfinished one if there is any.

    Args:
        out: A run's folder, or one with runs in it; None: ``runs``.
        model: Name of its model, where there are several runs to choose from.
        graph_hash: Its graph, likewise.
    """
    folder = Path(out or "runs")
    if (folder / "config.json").is_file():
        named = Begun(folder, read_json(folder / "config.json"))
        if not named.is_run:
            raise UserError(
                f"{folder} is not the folder of a run, its config.json lacks "
                f"{', '.join(sorted(RECORD - named.record.keys()))}; choose another --out."
            )
        return named
    files = sorted(folder.glob("*/config.json"), key=lambda path: path.stat().st_mtime_ns)
    found = [Begun(path.parent, read_json(path)) for path in files]
    wanted = (model, graph_hash)
    runs = [
        run
        for run in found
        if run.is_run and (run.record["model"], run.record["graph_hash"]) == wanted
    ]
    return max(runs, key=lambda run: (not run.finished, runs.index(run)), default=None)


def _differences(
    then: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str]
) -> Iterator[tuple[str, Any, Any]]:
    for name in names:
        if then.get(name) != now.get(name):
            yield name, then.get(name), now.get(name)
