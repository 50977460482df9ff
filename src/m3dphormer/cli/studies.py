"""Many runs: tune, compare, bench, reproduce."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from m3dphormer.cli.console import (
    as_table,
    open_console,
    print_json,
    print_trial,
    print_tuned,
)
from m3dphormer.cli.options import (
    INTERRUPTED,
    AsJson,
    Dataset,
    Device,
    Imports,
    Metric,
    ModelName,
    Root,
    Settings,
    fail,
    import_files,
    listed,
)
from m3dphormer.errors import unknown
from m3dphormer.experiments.ablations import EXPERIMENTS, run_ablations, summarise
from m3dphormer.experiments.bench import HEAPS, PARTS, THREADS, bench_tables, run_bench, save_bench
from m3dphormer.experiments.provenance import provenance
from m3dphormer.models import list_models
from m3dphormer.plots.compare import compare_figure
from m3dphormer.plots.tune import tune_figure
from m3dphormer.training import parse_settings
from m3dphormer.training.compare import compare as compare_models
from m3dphormer.training.compare import comparison_table


def tune(
    dataset: Dataset,
    model: ModelName = "m3dphormer",
    trials: Annotated[
        int, typer.Option(help="Trials the study shall have, whoever runs them.")
    ] = 30,
    splits: Annotated[int, typer.Option(help="Splits that each trial is trained on.")] = 1,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of each training.", show_default="200")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting to keep, key=value.")
    ] = None,
    imports: Imports = None,
    root: Root = None,
    out: Annotated[
        str | None, typer.Option(help="Folder for what is found; default tune/NAME.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(help="URL of a database for several machines; default: SQLite in --out."),
    ] = None,
    study: Annotated[str | None, typer.Option(help="The study's name in the database.")] = None,
    minutes: Annotated[float | None, typer.Option(help="No trial begins after that.")] = None,
    metric: Metric = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Search settings by validation; the same command goes on, or helps a search that runs."""
    from m3dphormer.training.tune import tune as tune_run  # needs the extra 'tune'

    import_files(imports)
    chosen = parse_settings(settings or [])
    if epochs is not None:
        chosen["epochs"] = epochs
    tuned = tune_run(
        dataset,
        model=model,
        trials=trials,
        splits=splits,
        settings=chosen,
        root=root,
        out=out,
        storage=storage,
        study=study,
        minutes=minutes,
        metric=metric,
        device=device,
        verbose=True,
        watch=print_trial,
    )
    tune_figure(tuned.table(), tuned.searched).savefig(tuned.folder / "search.png", dpi=150)
    if as_json:
        print_json(tuned.as_dict())
    else:
        print_tuned(tuned)
    if tuned.interrupted:
        fail("interrupted; the same command goes on", INTERRUPTED)


def compare(
    dataset: Dataset,
    models: Annotated[str, typer.Option(help="Comma-separated, or all.")],
    seeds: Annotated[int, typer.Option(help="How many runs; run i is split i, seed i.")] = 5,
    trials: Annotated[
        int, typer.Option("--tune", help="Tune every model first, with so many trials.")
    ] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting for all models, key=value.")
    ] = None,
    imports: Imports = None,
    root: Root = None,
    out: Annotated[
        str | None, typer.Option(help="Folder for runs and figure; default compare/NAME.")
    ] = None,
    metric: Metric = None,
    as_json: AsJson = False,
) -> None:
    """Train several models on the same splits, and tell which differ; the same command goes on."""
    import_files(imports)
    try:
        found = compare_models(
            dataset,
            list_models() if models == "all" else listed(models),
            seeds=seeds,
            settings=parse_settings(settings or []),
            trials=trials,
            root=root,
            out=out,
            metric=metric,
            imports=imports or [],
            origin={"command": " ".join(["m3dphormer", *sys.argv[1:]]), **provenance()},
            watch=lambda line: print(line, file=sys.stderr),
        )
    except KeyboardInterrupt:
        fail("interrupted; what is finished is kept, the same command goes on", INTERRUPTED)
    folder = Path(found.models[0].run)
    compare_figure(asdict(found)).savefig(folder / "compare.png", dpi=150)
    if as_json:
        print_json(asdict(found))
        return
    console = open_console()
    console.print(f"{found.dataset}, best by validation: {found.best}", highlight=False)
    console.print(as_table(comparison_table(found)))
    written = f"Written: {folder}/runs.csv, comparison.json, compare.png"
    console.print(written, highlight=False, soft_wrap=True)


def bench(
    graphs: Annotated[str, typer.Option(help="Comma-separated.")] = "cora,pubmed,computers",
    parts: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(PARTS),
    seconds: Annotated[float, typer.Option(help="Least time for each timing.")] = 10.0,
    threads: Annotated[list[int], typer.Option(help="May be repeated.")] = list(THREADS),  # noqa: B006
    heaps: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(HEAPS),
    root: Root = None,
    out: Annotated[str, typer.Option(help="Folder for bench.csv and bench.png.")] = "results",
    as_json: AsJson = False,
) -> None:
    """Measure speed and memory of attention against the other schemes and PyG."""
    quiet = as_json or not sys.stderr.isatty()
    table = run_bench(
        listed(graphs),
        root=root,
        parts=listed(parts),
        seconds=seconds,
        threads=threads,
        heaps=listed(heaps),
        watch=lambda line: None if quiet else print(line, file=sys.stderr),
    )
    save_bench(table, Path(out), command=" ".join(["m3dphormer", *sys.argv[1:]]))
    if as_json:
        print_json({"rows": json.loads(table.to_json(orient="records"))})
        return
    console = open_console()
    for title, rows in bench_tables(table).items():
        console.print(f"\n{title}", highlight=False)
        console.print(as_table(rows))
    console.print(f"\nWritten: {out}/bench.csv, {out}/bench.png", highlight=False)


def reproduce(
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")],
    graphs: Annotated[
        str | None, typer.Option(help="Comma-separated; default: those of the experiment.")
    ] = None,
    variants: Annotated[
        str | None, typer.Option(help="Comma-separated; default: those of the experiment.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many runs; run i is split i, seed i.")] = 5,
    settings: Settings = None,
    root: Root = None,
    out: Annotated[str, typer.Option(help="Folder for ablations.csv.")] = "results",
    as_json: AsJson = False,
) -> None:
    """Train what a table of the paper tells of and print it beside the paper's numbers."""
    if what not in EXPERIMENTS:
        raise unknown("experiment", what, EXPERIMENTS)
    experiment, quiet = EXPERIMENTS[what], as_json or not sys.stderr.isatty()
    rows = run_ablations(
        listed(graphs) if graphs else experiment.datasets,
        Path(out) / "ablations.csv",
        variants=listed(variants) if variants else experiment.variants,
        seeds=seeds,
        root=root,
        settings=parse_settings(settings or []),
        watch=lambda line: None if quiet else print(line, file=sys.stderr),
    )
    table = summarise(rows)
    if as_json:
        print_json({"what": what, "rows": json.loads(table.to_json(orient="records"))})
        return
    console = open_console()
    console.print(as_table(table))
    console.print(f"\nWritten: {out}/ablations.csv", highlight=False)
