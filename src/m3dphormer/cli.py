"""The command ``m3dphormer``: parses, calls, prints. A user's mistake is one line and exit 2."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from m3dphormer.errors import UserError, UserNotice, notice, unknown
from m3dphormer.experiments.ablations import EXPERIMENTS, run_ablations, summarise
from m3dphormer.experiments.bench import HEAPS, PARTS, THREADS, bench_tables, run_bench, save_bench
from m3dphormer.experiments.provenance import provenance
from m3dphormer.graph import datasets as list_datasets
from m3dphormer.models import list_models
from m3dphormer.plots.audit import audit_figure
from m3dphormer.plots.compare import compare_figure
from m3dphormer.plots.tune import tune_figure
from m3dphormer.report import write_report
from m3dphormer.theory import audit as audit_graph
from m3dphormer.theory import audit_tables, load_for_audit, node_table
from m3dphormer.training import (
    Plan,
    Summary,
    parse_settings,
    predict_run,
    write_table,
)
from m3dphormer.training import plan as plan_run
from m3dphormer.training import train as train_run
from m3dphormer.training.compare import compare as compare_models
from m3dphormer.training.compare import comparison_table
from m3dphormer.training.forecast import plan_tables, said
from m3dphormer.training.own_code import import_file

if TYPE_CHECKING:
    from m3dphormer.training.study import Ended
    from m3dphormer.training.tuned import Tuned

app = typer.Typer(
    name="m3dphormer",
    help="Train graph transformers on your graph, or on the benchmarks of the paper.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Root = Annotated[
    str | None,
    typer.Option(envvar="M3DPHORMER_DATA", help="Folder in which raw benchmark files lie."),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A setting, key=value; may be repeated.")
]
Imports = Annotated[
    list[str] | None,
    typer.Option("--import", help="Python file that registers masks or models of yours."),
]
RecipeFile = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help="TOML file with settings; none: plain defaults.",
        show_default="the one that comes with the package, if any",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

INTERRUPTED = 130  # what typer makes of Ctrl-C
UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # click's, wherever typer keeps it


@app.command()
def datasets(root: Root = None, as_json: AsJson = False) -> None:
    """List the datasets that have a name, with their numbers and where each would come from."""
    listed = list_datasets(root)
    if as_json:
        _print_json({"datasets": [asdict(one) for one in listed]})
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    for column in ("nodes", "edges", "features", "classes", "homophily"):
        table.add_column(column, justify="right")
    table.add_column("source", overflow="fold")
    for one in listed:
        numbers = (one.nodes, one.edges, one.features, one.classes)
        table.add_row(one.name, *(f"{n:,}" for n in numbers), f"{one.homophily:.3f}", one.source)
    _console().print(table)


@app.command()
def train(
    dataset: Annotated[str, typer.Argument(help="A known name, or the path of your own graph.")],
    model: Annotated[str, typer.Option(help="Which model.")] = "m3dphormer",
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
    metric: Annotated[str | None, typer.Option(help="accuracy, roc_auc or f1.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    force: Annotated[
        bool, typer.Option("--force", help="Start even where memory will not suffice.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model over several seeds; the best validation epoch gives the test score."""
    for path in imports or []:
        import_file(path)
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
        _fail(str(error) or "interrupted", INTERRUPTED)
    page = _try_report(summary.run, root)
    if as_json:
        _print_json({**asdict(summary), "report": page})
        return
    _print_summary(summary)
    if page is not None:
        _console().print(f"Report: {page}", highlight=False, soft_wrap=True)


@app.command()
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
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Predict the labels of a graph's nodes, also of nodes that were not there in training."""
    _check_writable(out, (".csv",))
    for path in imports or []:
        import_file(path)
    table = predict_run(run, data, ensemble=ensemble, root=root, device=device)
    if out is not None:
        write_table(Path(out), table)
    if as_json:
        rows = json.loads(table.to_json(orient="records"))
        _print_json({"run": run, "nodes": len(table), "out": out, "predictions": rows})
    elif out is None:
        write_table(sys.stdout, table)
    else:
        _console().print(f"Written: {out}, {len(table):,} nodes", highlight=False, soft_wrap=True)


@app.command()
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
    _check_writable(out, (".html",))
    for path in imports or []:
        import_file(path)
    written = write_report(run, root=root, out=out, audit=audit)
    if as_json:
        _print_json(asdict(written))
        return
    for line in written.missing:
        notice(line)
    _console().print(f"Written: {written.report}", highlight=False, soft_wrap=True)


@app.command()
def audit(
    dataset: Annotated[str, typer.Argument(help="A known name, or the path of your own graph.")],
    clusters: Annotated[str, typer.Option(help="How many clusters; auto tries some.")] = "auto",
    all_labels: Annotated[
        bool, typer.Option("--all-labels", help="Count every label, not only training labels.")
    ] = False,
    figure: Annotated[str | None, typer.Option(help="Draw it: a .png, .svg or .pdf file.")] = None,
    nodes: Annotated[str | None, typer.Option(help="Write a csv with a row for each node.")] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Tell what each mask offers the nodes of a graph, before training, and what to take."""
    _check_writable(figure, (".png", ".svg", ".pdf"))
    _check_writable(nodes, (".csv",))
    data = load_for_audit(dataset, root)
    found = audit_graph(
        data, clusters=int(clusters) if clusters.isdigit() else clusters, all_labels=all_labels
    )
    if figure is not None:
        audit_figure(found.as_dict()).savefig(figure, dpi=150)
    if nodes is not None:
        node_table(found, data).to_csv(nodes, index=False, float_format="%.4f")
    if as_json:
        _print_json(found.as_dict())
        return
    console = _console()
    console.print(
        f"{found.dataset}: {found.nodes:,} nodes, {found.known:,} {found.labels} labels",
        highlight=False,
    )
    for title, rows in audit_tables(found).items():
        console.print(f"\n{title}", highlight=False)
        console.print(_table(rows))
    console.print("\nAdvice", highlight=False)
    for line in found.advice:
        console.print(f"- {line}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def plan(
    dataset: Annotated[str, typer.Argument(help="A known name, or the path of your own graph.")],
    model: Annotated[str, typer.Option(help="Which model.")] = "m3dphormer",
    recipe: RecipeFile = None,
    settings: Settings = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Tell before a run how each mask is computed, and what memory and time each scheme takes."""
    chosen = parse_settings(settings or [])
    found = plan_run(dataset, model=model, recipe=recipe, settings=chosen, root=root)
    if as_json:
        _print_json(asdict(found))
    else:
        _print_plan(found)


@app.command()
def tune(
    dataset: Annotated[str, typer.Argument(help="A known name, or the path of your own graph.")],
    model: Annotated[str, typer.Option(help="Which model.")] = "m3dphormer",
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
    metric: Annotated[str | None, typer.Option(help="accuracy, roc_auc or f1.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Search settings by validation; the same command goes on, or helps a search that runs."""
    from m3dphormer.training.tune import tune as tune_run  # needs the extra 'tune'

    for path in imports or []:
        import_file(path)
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
        watch=_print_trial,
    )
    tune_figure(tuned.table(), tuned.searched).savefig(tuned.folder / "search.png", dpi=150)
    if as_json:
        _print_json(tuned.as_dict())
    else:
        _print_tuned(tuned)
    if tuned.interrupted:
        _fail("interrupted; the same command goes on", INTERRUPTED)


@app.command()
def compare(
    dataset: Annotated[str, typer.Argument(help="A known name, or the path of your own graph.")],
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
    metric: Annotated[str | None, typer.Option(help="accuracy, roc_auc or f1.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train several models on the same splits, and tell which differ; the same command goes on."""
    for path in imports or []:
        import_file(path)
    try:
        found = compare_models(
            dataset,
            list_models() if models == "all" else _listed(models),
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
        _fail("interrupted; what is finished is kept, the same command goes on", INTERRUPTED)
    folder = Path(found.models[0].run)
    compare_figure(asdict(found)).savefig(folder / "compare.png", dpi=150)
    if as_json:
        _print_json(asdict(found))
        return
    console = _console()
    console.print(f"{found.dataset}, best by validation: {found.best}", highlight=False)
    console.print(_table(comparison_table(found)))
    written = f"Written: {folder}/runs.csv, comparison.json, compare.png"
    console.print(written, highlight=False, soft_wrap=True)


@app.command()
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
        _listed(graphs),
        root=root,
        parts=_listed(parts),
        seconds=seconds,
        threads=threads,
        heaps=_listed(heaps),
        watch=lambda line: None if quiet else print(line, file=sys.stderr),
    )
    save_bench(table, Path(out), command=" ".join(["m3dphormer", *sys.argv[1:]]))
    if as_json:
        _print_json({"rows": json.loads(table.to_json(orient="records"))})
        return
    console = _console()
    for title, rows in bench_tables(table).items():
        console.print(f"\n{title}", highlight=False)
        console.print(_table(rows))
    console.print(f"\nWritten: {out}/bench.csv, {out}/bench.png", highlight=False)


@app.command()
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
        _listed(graphs) if graphs else experiment.datasets,
        Path(out) / "ablations.csv",
        variants=_listed(variants) if variants else experiment.variants,
        seeds=seeds,
        root=root,
        settings=parse_settings(settings or []),
        watch=lambda line: None if quiet else print(line, file=sys.stderr),
    )
    table = summarise(rows)
    if as_json:
        _print_json({"what": what, "rows": json.loads(table.to_json(orient="records"))})
        return
    console = _console()
    console.print(_table(table))
    console.print(f"\nWritten: {out}/ablations.csv", highlight=False)


def _try_report(run: str, root: str | None) -> str | None:
    """The report at the end of a training; whatever goes wrong with it, the run is safe."""
    try:
        return write_report(run, root=root).report
    except Exception as error:
        notice(f"No report was written: {error or type(error).__name__}; the run is in {run}.")
        return None


def _check_writable(path: str | None, suffixes: tuple[str, ...]) -> None:
    """Refuse a file that could not be written before the work starts."""
    if path is None:
        return
    if Path(path).suffix.lower() not in suffixes:
        raise UserError(f"{path!r} must end in {' or '.join(suffixes)}.")
    if not Path(path).absolute().parent.is_dir():
        raise UserError(
            f"No folder {str(Path(path).parent)!r} to write {path!r} in; make it first."
        )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _table(rows: pd.DataFrame) -> Table:
    table = Table(box=None, pad_edge=False)
    for name, column in rows.items():
        table.add_column(str(name), justify="right" if column.dtype.kind in "if" else "left")
    for row in rows.itertuples(index=False):
        table.add_row(*(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row))
    return table


def _print_trial(trial: Ended) -> None:
    """One line for who watches on a terminal."""
    if sys.stderr.isatty():
        score = "no epoch" if trial.validation is None else f"{trial.validation:.2f}"
        pruned = "" if trial.pruned is None else f", pruned: {trial.pruned}"
        words = f"trial {trial.number}: {score}{pruned} ({trial.seconds:.0f} s)"
        print(words, file=sys.stderr)


def _print_summary(summary: Summary) -> None:
    table = Table(box=None, pad_edge=False, title_justify="left")
    for column in ("seed", "epoch", "validation", f"test {summary.metric}", "seconds"):
        table.add_column(column, justify="right")
    rows = zip(
        summary.epochs, summary.validation, summary.scores, summary.seed_seconds, strict=True
    )
    for seed, (epoch, val, test, seconds) in enumerate(rows):
        table.add_row(str(seed), str(epoch), f"{val:.2f}", f"{test:.2f}", f"{seconds:.1f}")
    spread = f" ± {summary.std:.2f}" if summary.std is not None else ""
    table.add_section()
    table.add_row("mean", "", "", f"{summary.mean:.2f}{spread}", f"{summary.seconds:.1f}")
    console = _console()
    console.print(f"{summary.model} on {summary.dataset} ({summary.source})", highlight=False)
    console.print(table)
    _print_recipe(console, summary.recipe)
    console.print(f"Run folder: {summary.run}", highlight=False, soft_wrap=True)


def _print_plan(found: Plan) -> None:
    console = _console()
    free = f"{found.available_bytes / 1e9:.1f} GB of memory available"
    console.print(f"{found.model} on {found.dataset}, {free}", highlight=False)
    _print_recipe(console, found.recipe)
    if not found.schemes:
        console.print(f"{found.model} has no forecast.", highlight=False)
        return
    dense = (
        f"A dense transformer of as many layers and heads: {said(found.dense_transformer_bytes)}"
    )
    console.print(dense, highlight=False)
    for title, rows in plan_tables(found).items():
        console.print(f"\n{title}", highlight=False)
        console.print(_table(rows))


def _print_tuned(tuned: Tuned) -> None:
    console, best = _console(), tuned.best
    default = "" if tuned.defaults is None else f", of the defaults {tuned.defaults:.2f}"
    chosen = ", ".join(f"{name}={best.settings[name]}" for name in tuned.searched)
    for line in (
        f"{tuned.model} on {tuned.dataset}: {len(tuned.trials)} trials, {tuned.pruned} pruned",
        f"Best validation {tuned.metric}: {best.validation:.2f}{default}",
        f"Trial {best.number}: {chosen}",
        f"Written: {tuned.folder}/recipe.toml, trials.csv, search.png",
    ):
        console.print(line, highlight=False, soft_wrap=True)


def _print_recipe(console: Console, recipe: str | None) -> None:
    if recipe is not None:
        console.print(f"Recipe: {recipe}", highlight=False, soft_wrap=True)


def _console() -> Console:
    """As wide as the terminal; in a pipe or a file, wide enough to break no row."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def _print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content))


def _print_notices_once() -> None:
    """Notices in one line each; the warnings of other libraries are not the user's business."""
    told: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, UserNotice) and str(message) not in told:
            told.add(str(message))
            print(f"notice: {message}", file=sys.stderr)

    warnings.simplefilter("always", UserNotice)
    warnings.showwarning = show


def main() -> None:
    """Run the command; errors of the user end it with one line on stderr and exit code 2."""
    with warnings.catch_warnings():
        _print_notices_once()
        try:
            code = app(standalone_mode=False)
        except UserError as error:
            _fail(str(error), 2)
        except UsageError as error:
            _fail(f"{error.format_message()} See m3dphormer --help.", 2)  # type: ignore[attr-defined]
    if code == INTERRUPTED:
        _fail("interrupted", INTERRUPTED)
    sys.exit(code or 0)


def _fail(message: str, code: int) -> NoReturn:
    print(f"m3dphormer: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
