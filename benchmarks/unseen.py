"""What it costs a node not to be there in training: appends to results/unseen.csv.

A random tenth of each split's test nodes is hidden from one of two trainings, which then predicts
it on the whole graph; the other saw the whole graph. A split that the csv has is not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

import m3dphormer as m3d
from m3dphormer.experiments.provenance import provenance

TARGET = Path(__file__).resolve().parent.parent / "results" / "unseen.csv"
SHARE = 0.1


def main() -> None:
    """Run the splits that are missing, one row each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="where raw benchmark files lie")
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    chosen = parser.parse_args()
    rows = pd.read_csv(TARGET).to_dict("records") if TARGET.is_file() else []
    done = {(row["dataset"], row["split"], row["epochs"]) for row in rows}
    for split in range(chosen.splits):
        if (chosen.dataset, split, chosen.epochs) in done:
            continue
        rows.append(measure(chosen.dataset, split, chosen.epochs, chosen.root))
        TARGET.parent.mkdir(exist_ok=True)
        pd.DataFrame(rows).to_csv(TARGET, index=False)
    table = pd.DataFrame(rows)
    table = table[(table["dataset"] == chosen.dataset) & (table["epochs"] == chosen.epochs)]
    print(table[["split", "hidden", "transductive", "unseen", "gap"]].to_string(index=False))
    print(f"mean paired gap: {table['gap'].mean():.2f} points")


def measure(dataset: str, split: int, epochs: int, root: str | None) -> dict[str, object]:
    """Accuracy on the hidden nodes, in percent, of the training that saw them and the other."""
    data = m3d.load(dataset, root=root, split=split)
    data.node_ids = list(range(data.num_nodes))
    hidden = hidden_nodes(data, split)
    scores = {}
    for name, graph in (("transductive", data), ("unseen", without(data, hidden))):
        clf = m3d.NodeClassifier(seed=split, epochs=epochs, verbose=True).fit(graph)
        right = clf.predict_proba(data).argmax(axis=1)[hidden] == data.y.numpy()[hidden]
        scores[name] = round(100 * float(right.mean()), 2)
    return {
        "dataset": dataset,
        "split": split,
        "epochs": epochs,
        "hidden": len(hidden),
        **scores,
        "gap": round(scores["unseen"] - scores["transductive"], 2),
        "command": f"python benchmarks/unseen.py --dataset {dataset} --epochs {epochs}",
        **provenance(),
    }


def hidden_nodes(data: Data, seed: int) -> np.ndarray:
    """A random tenth of the test nodes, sorted."""
    test = np.flatnonzero(data.test_mask.numpy())
    drawn = np.random.RandomState(seed).permutation(test)[: round(SHARE * len(test))]
    return np.sort(drawn)


def without(data: Data, hidden: np.ndarray) -> Data:
    """The graph with those nodes and their edges taken out."""
    keep = torch.ones(data.num_nodes, dtype=torch.bool)
    keep[torch.from_numpy(hidden)] = False
    edges, _ = subgraph(keep, data.edge_index, relabel_nodes=True)
    rows = {key: data[key][keep] for key in ("x", "y", "train_mask", "val_mask", "test_mask")}
    ids = keep.nonzero().squeeze(1).tolist()
    return Data(edge_index=edges, node_ids=ids, label_names=data.label_names, **rows)


if __name__ == "__main__":
    main()
