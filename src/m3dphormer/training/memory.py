"""What a fitted classifier keeps of its graph, and the folder it is saved in.

``model.json`` (settings and facts), ``graph.npz`` (split, ids, training labels, clusters, states of
virtual rows),
``weights.safetensors``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.attention.structure.inputs import group_means
from m3dphormer.errors import UserError, notice
from m3dphormer.graph.cache import write_atomically
from m3dphormer.models import Model
from m3dphormer.training.files import as_record, damaged, read_json, write_arrays, write_json
from m3dphormer.training.loop import Epoch
from m3dphormer.training.scaling import scaled
from m3dphormer.training.unseen import as_text, by_id, place_new

FORMAT = 2


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
    encodings: bool  # whether the features were made from the edges
    label_names: tuple[str, ...]
    best: Epoch
    train: np.ndarray  # [N] bool, and so val and test
    val: np.ndarray
    test: np.ndarray
    labels: np.ndarray | None  # [N] int64, of training nodes, -1 elsewhere; None: an older run
    node_ids: np.ndarray | None  # [N] text
    cluster: np.ndarray | None  # [N] int64, where the model uses clusters
    centroids: np.ndarray | None  # [P, features] mean features of the clusters, on their scale
    states: Mapping[str, np.ndarray]  # what each layer reads of the virtual rows, by role
    feature_names: tuple[str, ...] | None = None  # of a table with names; None also: an older run
    scaling: np.ndarray | None = None  # [2, features] what each column is less and divided by

    @classmethod
    def of(
        cls,
        data: Data,
        metric: str,
        best: Epoch,
        states: Mapping[str, Tensor],
        scaling: np.ndarray | None,
    ) -> Memory:
        """Remember the graph a model was trained on, and what its virtual rows became."""
        train, val, test = (data[f"{part}_mask"].cpu().numpy() for part in ("train", "val", "test"))
        cluster = data.cluster if "cluster" in data else None
        centroids = None
        if cluster is not None:
            centroids = group_means(data.x.cpu(), cluster.cpu(), int(cluster.max()) + 1).numpy()
        return cls(
            dataset=data.name,
            source=data.source,
            graph_hash=data.graph_hash,
            split=data.split,
            split_hash=data.split_hash,
            metric=metric,
            features=int(data.num_features),
            encodings=data.encodings,
            label_names=tuple(data.label_names),
            best=best,
            train=train,
            val=val,
            test=test,
            labels=np.where(train, data.y.cpu().numpy(), -1),
            node_ids=as_text(data.node_ids) if "node_ids" in data else None,
            cluster=None if cluster is None else cluster.cpu().numpy(),
            centroids=centroids,
            states={role: state.cpu().numpy() for role, state in states.items()},
            feature_names=tuple(data.feature_names) if "feature_names" in data else None,
            scaling=scaling,
        )

    def recall(self, data: Data) -> tuple[Data, dict[str, Tensor]]:
        """A graph to predict on, without its labels, and the states of its virtual rows.

        Clusters without a node here are left out, and the others numbered anew.
        """
        data = self._on_its_scale(data)
        known = data.clone()
        known.y = torch.full_like(data.y, -1)
        known.train_mask = torch.zeros_like(data.train_mask)
        known.label_names = list(self.label_names)
        if self.labels is not None:
            known.shown = torch.from_numpy(self._old(data, self.labels))
        states = {role: torch.from_numpy(state) for role, state in self.states.items()}
        if self.cluster is not None:
            present, place = np.unique(self._clusters(data), return_inverse=True)
            known.cluster = torch.from_numpy(place)
            if "clusters" in states:
                states["clusters"] = states["clusters"][:, torch.from_numpy(present)]
        return known, states

    def clusters(self, data: Data) -> np.ndarray:
        """The cluster of each node, [N]: remembered for an old one, by its neighbours for a new."""
        return self._clusters(self._on_its_scale(data))

    def _on_its_scale(self, data: Data) -> Data:
        """The graph with the features of training, in their order and on their scale."""
        data = self._by_name(data)
        self._refuse_other_features(data)
        return scaled(data, self.scaling)

    def _clusters(self, data: Data) -> np.ndarray:
        assert self.cluster is not None
        assert self.centroids is not None
        edges, x = data.edge_index.cpu().numpy(), data.x.cpu().numpy()
        return place_new(self._old(data, self.cluster), edges, x, self.centroids)

    def _old(self, data: Data, values: np.ndarray) -> np.ndarray:
        """What was remembered of each node, [N]; -1 for a new one."""
        if self.node_ids is not None and "node_ids" in data:
            return by_id(as_text(data.node_ids), self.node_ids, values)
        if data.graph_hash == self.graph_hash:
            return values
        return np.full(data.num_nodes, -1)

    def _by_name(self, data: Data) -> Data:
        """The graph with the columns of training in their order, where both have names."""
        given = list(data.feature_names) if "feature_names" in data else None
        if self.feature_names is None or given is None or given == list(self.feature_names):
            return data
        missing = [name for name in self.feature_names if name not in given]
        if missing:
            raise UserError(
                f"{data.name} has no column {missing[0]!r}, one of the {self.features} features "
                f"the classifier was fitted on ({self.dataset}); give the same columns."
            )
        ignored = [name for name in given if name not in self.feature_names]
        if ignored:
            notice(f"{data.name}: not in training, ignored: {', '.join(map(repr, ignored))}.")
        known = data.clone()
        known.x = data.x[:, [given.index(name) for name in self.feature_names]]
        known.feature_names = list(self.feature_names)
        return known

    def _refuse_other_features(self, data: Data) -> None:
        if data.num_features != self.features:
            raise UserError(
                f"{data.name} has {data.num_features} features, the classifier was fitted on "
                f"{self.features} ({self.dataset}); give the same columns."
            )
        if data.graph_hash != self.graph_hash and (data.encodings or self.encodings):
            without = data.name if data.encodings else self.dataset
            raise UserError(
                f"{without} has no features; encodings of one graph mean nothing in another. "
                "Give features to both, and fit again."
            )


ARRAYS = ("train", "val", "test", "labels", "node_ids", "cluster", "centroids", "scaling")


def save(folder: Path, parameters: dict[str, Any], memory: Memory, model: Model) -> None:
    """Write the three files."""
    facts = asdict(memory)
    arrays = {name: facts.pop(name) for name in ARRAYS}
    arrays |= {f"state_{role}": state for role, state in facts.pop("states").items()}
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
    content = to_bytes(weights)
    write_atomically(folder / "weights.safetensors", lambda path: path.write_bytes(content))
    write_arrays(folder / "graph.npz", {k: v for k, v in arrays.items() if v is not None})
    write_json(folder / "model.json", {"format": FORMAT, "parameters": parameters, "memory": facts})


def load(folder: Path) -> tuple[dict[str, Any], Memory, dict[str, torch.Tensor]]:
    """Read the three files."""
    path = folder / "model.json"
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise UserError(
            f"{path} has format {content.get('format')!r}, this version reads {FORMAT}; "
            "train again."
        )
    parameters, facts = _facts(content, path)
    try:
        with np.load(folder / "graph.npz", allow_pickle=False) as stored:
            arrays = {name: stored.get(name) for name in ARRAYS}
            states = {
                name.removeprefix("state_"): stored[name]
                for name in stored.files
                if name.startswith("state_")
            }
        weights = load_file(folder / "weights.safetensors")
    except (OSError, ValueError, EOFError, BadZipFile, SafetensorError):
        raise UserError(f"{folder} is damaged or incomplete; train again.") from None
    return parameters, as_record(Memory, {**facts, **arrays, "states": states}, path), weights


def _facts(content: dict[str, Any], path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters of the classifier, and the memory but for its arrays."""
    try:
        parameters, facts = content["parameters"], content["memory"]
        if not {"model", "settings"} <= parameters.keys():
            raise damaged(path)
        facts["best"] = as_record(Epoch, facts["best"], path)
        facts["label_names"] = tuple(facts["label_names"])
        if facts.get("feature_names") is not None:
            facts["feature_names"] = tuple(facts["feature_names"])
    except (KeyError, TypeError, AttributeError):  # a key is missing, or no object where one was
        raise damaged(path) from None
    return parameters, facts
