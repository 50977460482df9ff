"""The one-page HTML report of a run: one file, no network, no script."""

from m3dphormer.report.write import Written, write_report

__all__ = ["Written", "write_report"]
