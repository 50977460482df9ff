"""One process at a time trains a run: it holds a lock on the run's record.

The system lets go of it when the process ends, however it ends. Where a file cannot be locked (on
Windows, on some network disks) nobody is kept out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import IO

from m3dphormer.errors import UserError

if sys.platform != "win32":
    import fcntl


class BeingTrained(UserError):
    """Another process trains the run."""


class Alone:
    """The right to train the run in a folder, until the end of a ``with`` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._record: IO[bytes] | None = None

    def __enter__(self) -> Alone:
        return self

    def take(self) -> None:
        """Take it now, if it is not taken yet; ``config.json`` must be there."""
        if self._record is not None or sys.platform == "win32":
            return
        record = (self.folder / "config.json").open("r+b")
        try:
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            record.close()
            raise BeingTrained(
                f"{self.folder} is being trained by another process; wait for it or choose another "
                "--out."
            ) from None
        except OSError:
            pass  # a disk that knows no locks
        self._record = record

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._record is not None:
            self._record.close()
