"""results/compare/*/runs.csv as the tables of docs/comparison.md: every model on every graph.

A model's runs are the newest of each seed that have the settings of its last one.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from m3dphormer.models import list_models
from m3dphormer.training.compare.paper import paper_score
from m3dphormer.training.compare.runs import Row, Runs

PROJECT = Path(__file__).resolve().parent.parent
GRAPHS = (
    ("cora", "citeseer", "chameleon", "squirrel"),
    ("pubmed", "photo", "computers", "minesweeper"),
)
SEEDS = 5
PAGE = PROJECT / "docs" / "comparison.md"
HEAD = """# Every model on every graph

Made by `python benchmarks/compare_table.py` from what `m3dphormer compare` has put into
`results/compare/`. Test score in percent (ROC-AUC on Minesweeper), mean ± standard deviation of
five splits, each model by the recipe that it was trained with last; in brackets z, the distance
to the paper's mean in the paper's standard deviations. A number behind a slash says how many of
the five splits have been run; an empty cell, that none has. [results.md](results.md) says how the
recipes were found.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page as it should be."""
    models = ["m3dphormer", *(name for name in list_models() if name != "m3dphormer")]
    return "\n".join([HEAD, *(table(graphs, models) for graphs in GRAPHS)])


def table(graphs: Sequence[str], models: Sequence[str]) -> str:
    """One row a model, one column a graph."""
    lines = ["| " + " | ".join(["", *graphs]) + " |", "|---" * (len(graphs) + 1) + "|"]
    rows = {
        graph: Runs(PROJECT / "results" / "compare" / graph / "runs.csv").read() for graph in graphs
    }
    for model in models:
        cells = [cell(model, graph, rows[graph]) for graph in graphs]
        lines.append("| " + " | ".join([model.replace("*", "\\*"), *cells]) + " |")
    return "\n".join(lines) + "\n"


def cell(model: str, graph: str, rows: Sequence[Row]) -> str:
    """Mean, standard deviation, z, and the number of splits where it is not the full one."""
    own = [row for row in rows if row["model"] == model]
    if not own:
        return ""
    newest = {row["seed"]: row["test"] for row in own if row["settings"] == own[-1]["settings"]}
    mean, said = statistics.fmean(newest.values()), ""
    if len(newest) > 1:
        said = f" ± {statistics.stdev(newest.values()):.2f}"
    paper = paper_score(model, graph)
    z = "" if paper is None else f" ({paper.z(mean):+.1f})"
    few = "" if len(newest) == SEEDS else f" /{len(newest)}"
    return f"{mean:.2f}{said}{z}{few}"


if __name__ == "__main__":
    main()
