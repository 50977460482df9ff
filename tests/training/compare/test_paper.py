from __future__ import annotations

import re

import pytest

from conftest import DATA
from m3dphormer.training.compare.paper import Score, paper_score

TEX = DATA.parent / "paper" / "m3dphormer.tex"
COLUMNS = ["cora", "citeseer", "pubmed", "computers", "photo"]
COLUMNS += ["squirrel", "chameleon", "minesweeper", "ogbn-arxiv"]


def test_scores_are_those_of_table_2() -> None:
    if not TEX.is_file():
        pytest.skip(f"no {TEX}")
    body = TEX.read_text(encoding="utf-8").partition(r"\label{main_table}")[2]
    rows = [line.split("&") for line in body.partition(r"\end{table}")[0].splitlines()]
    rows = [row for row in rows if r"\pm" in row[-1]]
    assert len(rows) == 16
    for first, *cells in rows:
        model = re.sub(r"\$\^\{3\}\$", "3", first).strip().lower()
        for dataset, cell in zip(COLUMNS, cells, strict=True):
            mean, std = map(float, re.findall(r"\d+\.\d+", cell))
            assert paper_score(model, dataset) == Score(mean, std), (model, dataset)


def test_what_the_paper_does_not_say_is_none() -> None:
    assert paper_score("m3dphormer", "cora") == Score(88.48, 1.94)
    assert paper_score("m3dphormer", "digits") is None
    assert paper_score("mlp", "cora") is None


def test_z_counts_the_papers_standard_deviations() -> None:
    assert Score(80.0, 2.0).z(85.0) == 2.5
    assert Score(80.0, 2.0).z(80.0) == 0
