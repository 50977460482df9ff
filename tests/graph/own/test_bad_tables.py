"""A bad table is refused by file and line."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from doors import (
    GOOD,
    LABELS,
    NODES,
    PARTS,
    folder,
    refused,
)

from m3dphormer.graph.own.files import load_path


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [
        (GOOD.replace("id,", "node,"), ["nodes.csv", "'id' is missing", "'node', 'label', 'a'"]),
        (GOOD.replace("label", "class"), ["nodes.csv", "'label' is missing", "'id', 'class'"]),
        (GOOD.replace(",", ";"), ["'id' is missing", "'id;label;a;b'"]),
        (GOOD.replace("n3,", "n1,"), ["nodes.csv line 5", "id 'n1'", "line 3"]),
        (GOOD.replace("n3,", ","), ["nodes.csv line 5", "id is missing"]),
        (GOOD.replace("n3,", "\nn1,"), ["nodes.csv line 6", "id 'n1'", "line 3"]),
        (GOOD.replace("n3,y,3", "n3,y,old"), ["line 5", "'a' of node 'n3' is 'old'"]),
        (GOOD.replace("n3,y,3", "n3,y,NA"), ["line 5", "'a' of node 'n3' is 'NA'"]),
        (GOOD.replace("n3,y,3", "n3,y,"), ["line 5", "'a' of node 'n3' is empty"]),
        (GOOD.replace("n3,y,3", "n3,y,nan"), ["line 5", "'a' of node 'n3' is empty, NaN"]),
        (GOOD.replace("n3,y,3", "n3,y,-inf"), ["line 5", "'a' of node 'n3' is", "infinite"]),
        (GOOD.replace("n3,y,3,1", "n3,y,3"), ["line 5", "unequal length", "3 cells", "has 4"]),
        (GOOD.replace("n3,y,3,1", "n3,y,3,1,1"), ["line 5", "unequal length", "5 cells", "has 4"]),
        (GOOD.replace(",1\n", ",1,2\n"), ["line 2", "unequal length", "5 cells", "has 4"]),
        (GOOD.replace("n3,y,3,1", 'n3,y,3,"1'), ["nodes.csv"]),
        (GOOD.replace("a,b", "split,b"), ["line 2", "split '0' is not train, val or test"]),
        (GOOD.replace(",x,", ",y,"), ["all labels are 'y'"]),
        (GOOD.replace(",x,", ",,").replace(",y,", ",,"), ["no node has a label"]),
        ("id,label,a\n", ["the graph is empty"]),
        ("", ["nodes.csv is empty", "header"]),
        (" \n\n", ["nodes.csv is empty", "header"]),
        (bytes(range(256)) * 40, ["nodes.csv is not UTF-8 text"]),
        (b"id\0,label\n", ["nodes.csv is not UTF-8 text"]),
        (GOOD.replace("x", "é").encode("latin-1"), ["nodes.csv is not UTF-8 text"]),
        (GOOD.encode("utf-16"), ["nodes.csv is not UTF-8 text"]),
    ],
)
def test_bad_nodes_are_refused_by_line(
    nodes: str | bytes, parts: list[str], tmp_path: Path
) -> None:
    refused(folder(tmp_path, nodes), *parts)


@pytest.mark.parametrize(
    ("edges", "parts"),
    [
        ("source,target\nn0,n1\nn0,n99\n", ["edges.csv line 3", "no node has the id 'n99'"]),
        ("source,target\nn0,\n", ["edges.csv line 2", "an edge needs two ends"]),
        ("source,target\nn0\n", ["edges.csv line 2", "unequal length"]),
        ("source,target\nn0,n1,n2\n", ["edges.csv line 2", "unequal length"]),
        ("source\nn0\n", ["edges.csv", "two columns, source and target", "'source'"]),
        ("n0,n1\nn1,n2\n", ["edges.csv line 1 is an edge", "source,target"]),
        ("", ["edges.csv is empty"]),
        (b"\xff\xfe\x00garbage", ["edges.csv is not UTF-8 text"]),
    ],
)
def test_bad_edges_are_refused_by_line(
    edges: str | bytes, parts: list[str], tmp_path: Path
) -> None:
    refused(folder(tmp_path, edges=edges), *parts)


def test_a_class_without_a_training_node_in_the_given_split_is_refused(tmp_path: Path) -> None:
    nodes = NODES.assign(
        split=["val" if label == "10" else part for label, part in zip(LABELS, PARTS, strict=True)]
    )
    refused(folder(tmp_path, nodes.to_csv(index=False)), "class '10' has no training node")


def test_a_large_graph_loads_in_seconds(tmp_path: Path) -> None:
    rng = np.random.RandomState(0)
    nodes = pd.DataFrame(rng.rand(20_000, 16).round(4)).add_prefix("f")
    nodes = nodes.assign(id=[f"node {i}" for i in nodes.index], label=rng.randint(5, size=20_000))
    ends = rng.randint(20_000, size=(200_000, 2))
    edges = "source,target\n" + "".join(f"node {s},node {t}\n" for s, t in ends)
    place = folder(tmp_path, nodes.to_csv(index=False), edges)
    start = time.perf_counter()
    assert load_path(place).x.shape == (20_000, 16)
    assert time.perf_counter() - start < 5
