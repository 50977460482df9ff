from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from graphs import random_graph
from m3dphormer.errors import UserError
from m3dphormer.graph.cache import cache_dir
from m3dphormer.masks import partition as metis
from m3dphormer.masks.partition import assign, auto_clusters


def edges(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T


def test_two_cliques_are_cut_at_their_bridge() -> None:
    clique = [(u, v) for u in range(8) for v in range(u)]
    data = Data(
        edge_index=edges(*clique, *((u + 8, v + 8) for u, v in clique), (0, 8)), num_nodes=16
    )
    cluster = metis(data, 2)
    assert len(set(cluster[:8].tolist())) == len(set(cluster[8:].tolist())) == 1
    assert cluster[0] != cluster[8]


@pytest.mark.parametrize("parts", [1, 2, 7, 59, 60])
def test_no_cluster_is_empty(parts: int) -> None:
    cluster = metis(random_graph(60), parts)
    assert cluster.unique().tolist() == list(range(parts))


def test_isolated_nodes_and_no_edges_are_partitioned_too() -> None:
    cluster = metis(Data(edge_index=edges(), num_nodes=10), 3)
    assert cluster.shape == (10,)
    assert cluster.max() <= 2


def test_the_same_graph_gives_the_same_clusters_whatever_the_edge_order() -> None:
    data = random_graph(60)
    once = metis(data, 6)
    for path in cache_dir("partitions").iterdir():
        path.unlink()
    shuffled = Data(edge_index=data.edge_index.flip(1), num_nodes=60)
    assert torch.equal(metis(shuffled, 6), once)


def test_it_is_kept_in_the_cache_and_a_broken_entry_is_made_anew() -> None:
    data = random_graph(60)
    once = metis(data, 6)
    (path,) = cache_dir("partitions").iterdir()
    path.write_bytes(path.read_bytes()[:20])
    assert torch.equal(metis(data, 6), once)


def test_a_cache_that_cannot_be_written_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("M3DPHORMER_CACHE", str(tmp_path / "file"))
    assert metis(random_graph(60), 6).shape == (60,)


def test_auto_is_about_one_cluster_for_32_nodes() -> None:
    assert [auto_clusters(n) for n in (2, 60, 2708, 169_343)] == [2, 4, 85, 2048]


def test_a_partition_on_the_graph_is_taken_instead_of_metis() -> None:
    data = random_graph(60)
    data.cluster = torch.arange(60) % 5
    assert torch.equal(assign(data, "auto"), data.cluster)
    assert int(assign(data, 7).max()) == 6  # a number that is asked for wins


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        (61, "61 clusters are more than the graph's 60 nodes"),
        (0, "must be an int of at least 1"),
        ("many", "must be an int of at least 1 or 'auto'. Got 'many'"),
        (True, "must be an int"),
        (torch.arange(59), r"shape \(59,\) for 60 nodes"),
        (torch.arange(60) - 1, "negative"),
        (torch.arange(60) * 2, "no node is in cluster 1"),
    ],
)
def test_bad_clusters_are_told_in_one_line(clusters: object, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        assign(random_graph(60), clusters)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
