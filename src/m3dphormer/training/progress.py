"""A live bar with loss, validation score and time left; nothing when stderr is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from m3dphormer.training.loop import Epoch, Watch


@contextmanager
def progress(title: str, epochs: int, enabled: bool) -> Iterator[Watch]:
    """Give a function that takes every finished epoch."""
    console = Console(stderr=True)
    if not (enabled and console.is_terminal):
        yield lambda epoch: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}  val {task.fields[val]:.2f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=epochs, loss=float("nan"), val=float("nan"))

        def show(epoch: Epoch) -> None:
            bar.update(task, completed=epoch.epoch, loss=epoch.loss, val=100 * epoch.val)

        yield show
