"""A model of yours: train, predict, report."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from m3dphormer.cli.console import (
    open_console,
    print_json,
    print_summary,
)
from m3dphormer.cli.options import (
    INTERRUPTED,
    AsJson,
    Dataset,
    Device,
    Imports,
    Metric,
    ModelName,
    RecipeFile,
    Root,
    Settings,
    check_writable,
    fail,
    import_files,
)
from m3dphormer.errors import notice
from m3dphormer.report import write_report
from m3dphormer.training import parse_settings, predict_run, write_table
from m3dphormer.training import train as train_run


def train(
    dataset: Dataset,
    model: ModelName = "m3dphormer",
    seeds: Annotated[
        int | None,
        typer.Option(help="How many runs; run i is split i, seed i.", show_default="5"),
    ] = None,
    recipe: RecipeFile = None,
    settings: Settings = None,
    imports: Imports = None,
    root: Root = None,
    out: Annotated[str | None, typer.Option(help="The run's folder; default runs/NAME.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in or under --out.")
    ] = False,
    minutes: Annotated[float | None, typer.Option(help="Time for all seeds together.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many epochs without a better validation.")
    ] = None,
    checkpoint: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 5.0,
    metric: Metric = None,
    device: Device = "cpu",
    force: Annotated[
        bool, typer.Option("--force", help="Start even where memory will not suffice.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model over several seeds; the best validation epoch gives the test score."""
    import_files(imports)
    chosen = parse_settings(settings or [])
    if patience is not None:
        chosen["patience"] = patience
    try:
        summary = train_run(
            dataset,
            model=model,
            seeds=seeds,
            recipe=recipe,
            settings=chosen,
            root=root,
            out=out,
            metric=metric,
            device=device,
            verbose=True,
            resume=resume,
            minutes=minutes,
            checkpoint=checkpoint,
            force=force,
        )
    except KeyboardInterrupt as error:
        fail(str(error) or "interrupted", INTERRUPTED)
    page = _try_report(summary.run, root)
    if as_json:
        print_json({**asdict(summary), "report": page})
        return
    print_summary(summary)
    if page is not None:
        open_console().print(f"Report: {page}", highlight=False, soft_wrap=True)


def predict(
    run: Annotated[str, typer.Argument(help="The folder of a run, or of a saved classifier.")],
    data: Annotated[
        str | None, typer.Argument(help="Another graph, labelled or not; default: its own.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="A csv file; default: print it.")] = None,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Average all seeds, not the best one alone.")
    ] = False,
    imports: Imports = None,
    root: Root = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Predict the labels of a graph's nodes, also of nodes that were not there in training."""
    check_writable(out, (".csv",))
    import_files(imports)
    table = predict_run(run, data, ensemble=ensemble, root=root, device=device)
    if out is not None:
        write_table(Path(out), table)
    if as_json:
        rows = json.loads(table.to_json(orient="records"))
        print_json({"run": run, "nodes": len(table), "out": out, "predictions": rows})
    elif out is None:
        write_table(sys.stdout, table)
    else:
        open_console().print(
            f"Written: {out}, {len(table):,} nodes", highlight=False, soft_wrap=True
        )


def report(
    run: Annotated[str, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[
        str | None, typer.Option(help="An html file; default: report.html in the run's folder.")
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Audit the masks of a large graph, too.")
    ] = False,
    imports: Imports = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of a run: one HTML page with scores, curves, gates, masks and nodes."""
    check_writable(out, (".html",))
    import_files(imports)
    written = write_report(run, root=root, out=out, audit=audit)
    if as_json:
        print_json(asdict(written))
        return
    for line in written.missing:
        notice(line)
    open_console().print(f"Written: {written.report}", highlight=False, soft_wrap=True)


def _try_report(run: str, root: str | None) -> str | None:
    """The report at the end of a training; whatever goes wrong with it, the run is safe."""
    try:
        return write_report(run, root=root).report
    except Exception as error:
        notice(f"No report was written: {error or type(error).__name__}; the run is in {run}.")
        return None
