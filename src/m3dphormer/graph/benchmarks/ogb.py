"""ogbn-arxiv from OGB's csv.gz files, read directly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from m3dphormer.graph.benchmarks.parsed import Parsed, canonical_edges, reading
from m3dphormer.graph.splits import GivenSplit

FEATURES = "raw/node-feat.csv.gz"
GUESSES = "extra/tape_gpt_preds_ogbn-arxiv.csv"
MOST_GUESSES = 5
CATEGORIES = "mapping/labelidx2arxivcategeory.csv.gz"  # spelt so by OGB
PARTS = ("train", "valid", "test")
FILES = (
    "raw/edge.csv.gz",
    "raw/node-label.csv.gz",
    *(f"split/time/{part}.csv.gz" for part in PARTS),
)


def read_arxiv(folder: Path, *, features: bool = True) -> Parsed:
    """Read citations, subject areas, the split by year and, where asked for, word vectors.

    Args:
        folder: Where ``raw``, ``split`` and ``mapping`` lie.
    """
    y = _read_table(folder / "raw/node-label.csv.gz", np.int64, columns=1)[:, 0]
    path = folder / "raw/edge.csv.gz"
    edges = _read_table(path, np.int64, columns=2).T
    with reading(path, "an OGB csv.gz file"):
        edges = canonical_edges(edges, len(y))
    return Parsed(
        edges=edges,
        x=_read_table(folder / FEATURES, np.float32, columns=128) if features else None,
        y=y,
        splits=GivenSplit(*(_read_mask(folder, part, len(y)) for part in PARTS)),
        label_names=_read_categories(folder / CATEGORIES, classes=int(y.max()) + 1),
    )


def read_arxiv_guesses(folder: Path, *, features: bool = True) -> Parsed:
    """The same graph with a language model's guesses of the class in place of word vectors.

    A guess is a one in the column of its rank and class: [N, 5 * classes].
    """
    parsed = read_arxiv(folder, features=False)
    return replace(parsed, x=_read_guesses(folder / GUESSES, parsed.y)) if features else parsed


def read_arxiv_candidates(folder: Path, *, features: bool = True) -> Parsed:
    """The same with the guesses as a set: a one in the column of each class that was named.

    Without their order, [N, classes], they are no more than a hint, as word vectors are.
    """
    parsed = read_arxiv_guesses(folder, features=features)
    if parsed.x is None:
        return parsed
    ranked = parsed.x.reshape(len(parsed.y), MOST_GUESSES, -1)
    return replace(parsed, x=ranked.max(axis=1))


def _read_guesses(path: Path, y: np.ndarray) -> np.ndarray:
    classes = int(y.max()) + 1
    with reading(path, "a csv file of up to five class numbers a line"):
        names = range(MOST_GUESSES)  # a line without a guess is blank
        table = pd.read_csv(path, header=None, names=names, skip_blank_lines=False).to_numpy()
        node, rank = np.nonzero(~np.isnan(table))
        guess = table[node, rank].astype(np.int64)
        if len(table) != len(y) or guess.min() < 0 or guess.max() >= classes:
            raise ValueError("not a line a node, or no such class")
        x = np.zeros((len(y), MOST_GUESSES * classes), np.float32)
        x[node, rank * classes + guess] = 1
        return x


def _read_table(path: Path, dtype: type[np.generic], columns: int) -> np.ndarray:
    with reading(path, "an OGB csv.gz file"):
        table = pd.read_csv(path, header=None, dtype=dtype, compression="gzip").to_numpy()
        if table.shape[1] != columns:
            raise ValueError(f"{table.shape[1]} columns instead of {columns}")
        return np.ascontiguousarray(table)


def _read_mask(folder: Path, part: str, num_nodes: int) -> np.ndarray:
    path = folder / f"split/time/{part}.csv.gz"
    nodes = _read_table(path, np.int64, columns=1)[:, 0]
    with reading(path, "an OGB csv.gz file"):
        mask = np.zeros(num_nodes, bool)
        mask[nodes] = True
        return mask


def _read_categories(path: Path, classes: int) -> list[str] | None:
    """The arXiv category of each class, such as ``arxiv cs ai``; None without the file."""
    if not path.exists():
        return None
    with reading(path, "an OGB csv.gz file"):
        table = pd.read_csv(path, compression="gzip").set_index("label idx")
        return [str(table.loc[label, "arxiv category"]) for label in range(classes)]
