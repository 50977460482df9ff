"""What a fitted classifier keeps of its graph, and the folder it is saved in.

``model.json`` (settings and facts), ``graph.npz`` (split, training labels, clusters),
``weights.safetensors``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph.cache import write_atomically
from m3dphormer.models import Model
from m3dphormer.training.files import read_json, write_arrays, write_json
from m3dphormer.training.loop import Epoch

FORMAT = 1


@dataclass(frozen=True)
class Memory:
    """The training graph as far as prediction and the record need it."""

    dataset: str
    source: str
    graph_hash: str
    split: int
    split_hash: str
    metric: str
    features: int
    label_names: tuple[str, ...]
    best: Epoch
    train: np.ndarray  # [N] bool, and so val and test
    val: np.ndarray
    test: np.ndarray
    train_labels: np.ndarray  # [N] int64, -1 for every other node
    cluster: np.ndarray | None  # [N] int64, where the model uses clusters

    @classmethod
    def of(cls, data: Data, metric: str, best: Epoch) -> Memory:
        """Remember the graph a model was trained on."""
        train, val, test = (data[f"{part}_mask"].cpu().numpy() for part in ("train", "val", "test"))
        cluster = getattr(data, "cluster", None)
        return cls(
            dataset=data.name,
            source=data.source,
            graph_hash=data.graph_hash,
            split=data.split,
            split_hash=data.split_hash,
            metric=metric,
            features=int(data.num_features),
            label_names=tuple(data.label_names),
            best=best,
            train=train,
            val=val,
            test=test,
            train_labels=np.where(train, data.y.cpu().numpy(), -1),
            cluster=None if cluster is None else cluster.cpu().numpy(),
        )

    def recall(self, data: Data) -> Data:
        """The graph as it was trained on: its own labels do not count, the remembered ones do."""
        if data.graph_hash != self.graph_hash:
            raise UserError(
                f"{data.name} is not the graph this classifier was fitted on ({self.dataset}); "
                "fit one on it."
            )
        known = data.clone()
        known.y = torch.from_numpy(self.train_labels)
        known.train_mask = torch.from_numpy(self.train)
        known.label_names = list(self.label_names)
        if self.cluster is not None:
            known.cluster = torch.from_numpy(self.cluster)
        return known


ARRAYS = ("train", "val", "test", "train_labels", "cluster")


def save(folder: Path, parameters: dict[str, Any], memory: Memory, model: Model) -> None:
    """Write the three files."""
    facts = asdict(memory)
    arrays = {name: facts.pop(name) for name in ARRAYS}
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
    content = to_bytes(weights)
    write_atomically(folder / "weights.safetensors", lambda path: path.write_bytes(content))
    write_arrays(folder / "graph.npz", {k: v for k, v in arrays.items() if v is not None})
    write_json(folder / "model.json", {"format": FORMAT, "parameters": parameters, "memory": facts})


def load(folder: Path) -> tuple[dict[str, Any], Memory, dict[str, torch.Tensor]]:
    """Read the three files."""
    content = read_json(folder / "model.json")
    if content.get("format") != FORMAT:
        raise UserError(
            f"{folder} has format {content.get('format')!r}, this version reads {FORMAT}; "
            "train again."
        )
    facts = content["memory"]
    facts["best"] = Epoch(**facts["best"])
    facts["label_names"] = tuple(facts["label_names"])
    try:
        with np.load(folder / "graph.npz", allow_pickle=False) as stored:
            arrays = {name: stored.get(name) for name in ARRAYS}
        weights = load_file(folder / "weights.safetensors")
    except (OSError, ValueError, EOFError, BadZipFile, SafetensorError):
        raise UserError(f"{folder} is damaged or incomplete; train again.") from None
    return content["parameters"], Memory(**facts, **arrays), weights
