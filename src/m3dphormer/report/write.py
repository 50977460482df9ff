"""From a run's folder to a page in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from m3dphormer.graph.cache import write_atomically
from m3dphormer.report.gather import gather
from m3dphormer.report.page import render


@dataclass(frozen=True)
class Written:
    """A report that was written, and why it leaves something out, one sentence each."""

    run: str
    report: str
    missing: list[str]


def write_report(
    run: str | os.PathLike[str],
    *,
    root: str | None = None,
    out: str | os.PathLike[str] | None = None,
    audit: bool = False,
) -> Written:
    """Write the report of a finished run as one self-contained HTML file.

    Args:
        run: The run's folder.
        root: Where raw benchmark files lie.
        out: The file; None: ``report.html`` in the run's folder.
        audit: Audit the masks also on a large graph.
    """
    folder = Path(run)
    report = gather(folder, root, audit=audit)
    page = render(report)
    target = folder / "report.html" if out is None else Path(out)
    write_atomically(target, lambda temporary: temporary.write_text(page, encoding="utf-8"))
    return Written(str(folder), str(target), report.missing)
