"""The pages in docs/ and the README are true: their Python runs, and gives what they say it gives.

A page says ``expression  # -> value``: the value is the expression's ``repr``.
"""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import sys
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot

from conftest import PROJECT
from m3dphormer import cli, masks, models

PAGES = sorted([*PROJECT.glob("README.md"), *PROJECT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)\n```", re.MULTILINE | re.DOTALL)
SAYS = "  # -> "


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what a page registers is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(masks.registry, "_BUILDERS", dict(masks.registry._BUILDERS))
    monkeypatch.setattr(models.registry, "_MODELS", dict(models.registry._MODELS))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_and_gives_what_the_page_says(page: Path) -> None:
    matplotlib.use("Agg")
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        run(block, namespace)
    pyplot.close("all")


def test_the_command_trains_the_model_in_the_users_file(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (PROJECT / "docs" / "your_own_model.md").read_text(encoding="utf-8")
    Path("my_model.py").write_text(BLOCK.findall(page)[0], encoding="utf-8")
    (line,) = CONSOLE.findall(page)
    monkeypatch.setattr(sys, "argv", [*shlex.split(line), "--set", "epochs=2"])
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main()
    assert (Path("runs") / "digits-look-1" / "summary.json").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pictures_of_a_page_exist(page: Path) -> None:
    for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).is_file(), target


def test_the_table_of_every_model_is_what_the_runs_say() -> None:
    made = runpy.run_path(str(PROJECT / "benchmarks" / "compare_table.py"))
    assert (PROJECT / "docs" / "comparison.md").read_text(encoding="utf-8") == made["page"]()


def test_a_page_that_says_a_wrong_value_is_found() -> None:
    with pytest.raises(AssertionError, match=r"1 \+ 1 gives 2"):
        run("1 + 1  # -> 3\n", {})
    with pytest.raises(AssertionError, match="not the value of a statement"):
        run("if True:\n    1 + 1  # -> 2\n", {})


def run(block: str, namespace: dict[str, object]) -> None:
    """Run a block statement by statement, and compare each value that it says."""
    lines, compared = block.splitlines(), 0
    for statement in ast.parse(block).body:
        code, said = ast.unparse(statement), lines[statement.end_lineno - 1].partition(SAYS)[2]
        if isinstance(statement, ast.Expr) and said:
            value = repr(eval(code, namespace))
            assert value == said, f"{code} gives {value}, the page says {said}"
            compared += 1
        else:
            exec(compile(code, "page", "exec", dont_inherit=True), namespace)
    assert compared == block.count(SAYS), f"not the value of a statement in: {block}"
