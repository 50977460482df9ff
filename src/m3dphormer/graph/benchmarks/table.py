"""The table of the benchmarks: numbers, homes, hashes, splits and metrics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from m3dphormer.graph.benchmarks import ogb
from m3dphormer.graph.benchmarks.amazon import read_amazon
from m3dphormer.graph.benchmarks.citation_wheel import read_citation
from m3dphormer.graph.benchmarks.fetch import RawFiles
from m3dphormer.graph.benchmarks.heterophilous import read_heterophilous
from m3dphormer.graph.benchmarks.parsed import Parsed
from m3dphormer.graph.benchmarks.planetoid import planetoid_files
from m3dphormer.graph.splits import RandomSplit, SplitRule

PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
GNN_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
HETEROPHILOUS = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
OGB_ARXIV = "https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"

HALF = RandomSplit(0.5, 0.25)


class Parser(Protocol):
    """Reads the raw files in a folder; ``features=False`` leaves ``x`` out."""

    def __call__(self, folder: Path, *, features: bool = True) -> Parsed: ...


@dataclass(frozen=True)
class Numbers:
    """Size of a graph; an undirected edge counts once, homophily is the share inside a class."""

    nodes: int
    edges: int
    features: int
    classes: int
    homophily: float


@dataclass(frozen=True)
class Hashes:
    """sha256 of the parsed arrays; None: that array is not checked."""

    edges: str
    x: str | None
    y: str
    splits: str | None = None


@dataclass(frozen=True)
class Benchmark:
    """One benchmark as the literature knows it.

    Args:
        name: What the user calls it.
        numbers: What is said of it.
        hashes: What its files must parse to, features before ``normalise``.
        raw: Its files and where they may be.
        parse: Reads them.
        rule: How split ``i`` is made; None: the splits that come with the files.
        metric: What a score on it means.
        normalise: Whether each feature row is divided by its sum.
        feature_files: Files that hold features alone, needed only by who asks for them.
        stand_in: What the features are where they are not the benchmark's; told with its source.
    """

    name: str
    numbers: Numbers
    hashes: Hashes
    raw: RawFiles
    parse: Parser
    rule: SplitRule | None
    metric: str = "accuracy"
    normalise: bool = False
    feature_files: tuple[str, ...] = ()
    stand_in: str = ""

    def files(self, *, features: bool) -> RawFiles:
        """The raw files that are needed with or without features."""
        extra = self.feature_files if features else ()
        return replace(self.raw, files=(*self.raw.files, *extra))


def _citation(name: str, folder: str, numbers: Numbers, hashes: Hashes) -> Benchmark:
    raw = RawFiles(name, _folders(name, folder), planetoid_files(name), PLANETOID, in_wheel=True)
    parse = partial(read_citation, name=name)
    return Benchmark(name, numbers, hashes, raw, parse, HALF)


def _amazon(name: str, folder: str, numbers: Numbers, hashes: Hashes) -> Benchmark:
    file = f"amazon_electronics_{name}.npz"
    raw = RawFiles(name, _folders(name, folder), (file,), GNN_BENCHMARK)
    parse = partial(read_amazon, file=file)
    return Benchmark(name, numbers, hashes, raw, parse, RandomSplit(0.6, 0.2), normalise=True)


def _heterophilous(
    name: str,
    folder: str,
    numbers: Numbers,
    hashes: Hashes,
    rule: SplitRule | None = HALF,
    metric: str = "accuracy",
) -> Benchmark:
    file = f"{folder}.npz"
    raw = RawFiles(name, _folders(name, folder), (file,), HETEROPHILOUS)
    parse = partial(read_heterophilous, file=file)
    return Benchmark(name, numbers, hashes, raw, parse, rule, metric)


def _arxiv(
    name: str, numbers: Numbers, hashes: Hashes, parse: Parser, features: str, stand_in: str = ""
) -> Benchmark:
    folders = ("ogbn_arxiv", "ogbn-arxiv", "arxiv", ".")
    raw = RawFiles(name, folders, ogb.FILES, OGB_ARXIV, optional=(ogb.CATEGORIES, ogb.FEATURES))
    return Benchmark(
        name, numbers, hashes, raw, parse, None, feature_files=(features,), stand_in=stand_in
    )


def _folders(name: str, folder: str) -> tuple[str, ...]:
    """As PyG lays them out, then the same without ``raw``, then the root itself."""
    return tuple(dict.fromkeys((f"{folder}/raw", f"{name}/raw", folder, name, ".")))


ARXIV = Hashes(
    edges="e09374c7e9419b9b7b8eb0e0f91a5cde55a979786271644ac10b8928c3f0a98d",
    x=None,
    y="ac8d85efe17691f15000f810c03026c14fdf29a062599be46dfb1e6f4f44c82f",
    splits="58df7199c6e14a42b7388047cc2d001750a445816f5c791c8fff576b341b9f2f",
)

_ALL = (
    _citation(
        "cora",
        "Cora",
        Numbers(2_708, 5_278, 1_433, 7, 0.81),
        Hashes(
            edges="173d29f488ecb9587541899a415b540393c5236b260648ba2e54f3dc40bde84a",
            x="bbaf8b0ff904dafa9c964f18ab08d5ec2f264810dfc9439d9d92e06877c21b28",
            y="0f1eb1a35c06002537296ff59c80e8356265808fd4adff3d2caee4f6c4eeb828",
        ),
    ),
    _citation(
        "citeseer",
        "CiteSeer",
        Numbers(3_327, 4_552, 3_703, 6, 0.736),
        Hashes(
            edges="1fcd85a423b2431e807e724e9c52f5f61f62965a2c8d7440ca2351c29f0834d6",
            x="930bfa568388eca1eba4fdc675397fcafb1ad65f40a535405ed76da9187c72ce",
            y="53e52330599603bd22aa6519e7a78d1c4a139848fe71fab344ec4fe847a20394",
        ),
    ),
    _citation(
        "pubmed",
        "PubMed",
        Numbers(19_717, 44_324, 500, 3, 0.802),
        Hashes(
            edges="09fed32c112965bf4c46dfa1af990c9a58a823d2f75bb5f8ca0f58c9e6ae0e05",
            x="969edb85c602adb612561f660649de0fdbb44216d7e12c30b2b2c0533d05bb42",
            y="b1be3d4eef769ca1a278abe77503efba23dc3bc12d21afdef98ded69a70fc126",
        ),
    ),
    _amazon(
        "photo",
        "Photo",
        Numbers(7_650, 119_081, 745, 8, 0.827),
        Hashes(
            edges="5b7b6cd31b4ec05a1c0fdb74a6f1f0293b0bce2a7772a84ab3dca42302654d0b",
            x="f420d8ee89fcfea0ff4afc2d945a47a9bf909a6b0c09d73880b826ceefae0e84",
            y="3ff08fcc61c63cca06e005287d5a8b10ab17b709c0af09ab307594005722601d",
        ),
    ),
    _amazon(
        "computers",
        "Computers",
        Numbers(13_752, 245_861, 767, 10, 0.777),
        Hashes(
            edges="35eb0f01ca9067a4b41052fc8d3687b9a8c344eb91ea530ff8fcd27a981ca80c",
            x="3fa3016b24314b1b192c2e5c8d7c07ce85484a10568d827001c5b2b30f1a78ee",
            y="759e4cb5dec87ef63c1150abd5db922ed78b8c03df34b6148e8ad040113db6e9",
        ),
    ),
    _heterophilous(
        "chameleon",
        "chameleon_filtered",
        Numbers(890, 8_854, 2_325, 5, 0.236),
        Hashes(
            edges="b24bbc19f1ea0af5d4f36089cee41916ca0e1253816f6942b1abbea817529b79",
            x="0979e691e09ef4a71f8939db54ca7babf845ccf13bf397a3741511a34475a225",
            y="8cc9afec108921baa33de2cb399a318701711cfdf0885ed9131ffeef562aa791",
        ),
    ),
    _heterophilous(
        "squirrel",
        "squirrel_filtered",
        Numbers(2_223, 46_998, 2_089, 5, 0.207),
        Hashes(
            edges="345c38847719dfe5941f94a5c5c1f2232bf469fa39e7f1acbbe3d8ba845e4a5f",
            x="0dd0ee55f2f0a669dab49a9845218e1ea822b98b420c9faaa375f69ab840fc1a",
            y="111241484346e04c560307d55a1575de956fd7add502c85ebd0acf003a97d9e2",
        ),
    ),
    _heterophilous(
        "minesweeper",
        "minesweeper",
        Numbers(10_000, 39_402, 7, 2, 0.683),
        Hashes(
            edges="a9f01ec87008295c1a2b6c79b16946011e5a7422c033f1399f6d12999a7b3586",
            x="ab8f3db05589d8029742cacdd3e25671b30008f63733c3829a5564f9366a70cd",
            y="f7b9fcf895edeb44298546b01d14aee15050ac2e0d8be033c098cc831e4c88a6",
            splits="2b61c2d7ad41fa39304356a9762d80d54af77ab60b437c0129aed0792c1f8a52",
        ),
        rule=None,
        metric="roc_auc",
    ),
    _arxiv(
        "ogbn-arxiv",
        Numbers(169_343, 1_157_799, 128, 40, 0.654),
        ARXIV,
        ogb.read_arxiv,
        ogb.FEATURES,
    ),
    _arxiv(
        "ogbn-arxiv-guesses",
        Numbers(169_343, 1_157_799, 200, 40, 0.654),
        replace(ARXIV, x="d437c579fe35cdcb871679ae673724f96e2d389b05eb14f72c7a9b62cf5b82a5"),
        ogb.read_arxiv_guesses,
        ogb.GUESSES,
        stand_in="features are a language model's guesses of the class, not the benchmark's",
    ),
    _arxiv(
        "ogbn-arxiv-candidates",
        Numbers(169_343, 1_157_799, 40, 40, 0.654),
        replace(ARXIV, x="7ae1d01797ae603ebfe5bdddc08e34e23398062e17f072b9555af8ecc363fa04"),
        ogb.read_arxiv_candidates,
        ogb.GUESSES,
        stand_in="features are the set of a language model's guesses, not the benchmark's",
    ),
)
BENCHMARKS = {benchmark.name: benchmark for benchmark in _ALL}
