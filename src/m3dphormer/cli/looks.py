"""Before a run: datasets, audit, plan."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from m3dphormer.cli.console import (
    as_table,
    open_console,
    print_datasets,
    print_json,
    print_plan,
)
from m3dphormer.cli.options import (
    AsJson,
    Dataset,
    ModelName,
    RecipeFile,
    Root,
    Settings,
    check_writable,
)
from m3dphormer.graph import datasets as list_datasets
from m3dphormer.plots.audit import audit_figure
from m3dphormer.theory import audit as audit_graph
from m3dphormer.theory import audit_tables, load_for_audit, node_table
from m3dphormer.training import parse_settings
from m3dphormer.training import plan as plan_run


def datasets(root: Root = None, as_json: AsJson = False) -> None:
    """List the datasets that have a name, with their numbers and where each would come from."""
    listed = list_datasets(root)
    if as_json:
        print_json({"datasets": [asdict(one) for one in listed]})
        return
    print_datasets(listed)


def audit(
    dataset: Dataset,
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
    check_writable(figure, (".png", ".svg", ".pdf"))
    check_writable(nodes, (".csv",))
    data = load_for_audit(dataset, root)
    found = audit_graph(
        data, clusters=int(clusters) if clusters.isdecimal() else clusters, all_labels=all_labels
    )
    if figure is not None:
        audit_figure(found.as_dict()).savefig(figure, dpi=150)
    if nodes is not None:
        node_table(found, data).to_csv(nodes, index=False, float_format="%.4f")
    if as_json:
        print_json(found.as_dict())
        return
    console = open_console()
    console.print(
        f"{found.dataset}: {found.nodes:,} nodes, {found.known:,} {found.labels} labels",
        highlight=False,
    )
    for title, rows in audit_tables(found).items():
        console.print(f"\n{title}", highlight=False)
        console.print(as_table(rows))
    console.print("\nAdvice", highlight=False)
    for line in found.advice:
        console.print(f"- {line}", highlight=False, markup=False, soft_wrap=True)


def plan(
    dataset: Dataset,
    model: ModelName = "m3dphormer",
    recipe: RecipeFile = None,
    settings: Settings = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Tell before a run how each mask is computed, and what memory and time each scheme takes."""
    chosen = parse_settings(settings or [])
    found = plan_run(dataset, model=model, recipe=recipe, settings=chosen, root=root)
    if as_json:
        print_json(asdict(found))
    else:
        print_plan(found)
