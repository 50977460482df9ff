"""``NodeClassifier``: any registered model with the manners of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph import class_count, from_data
from m3dphormer.models import Model, model_type
from m3dphormer.models.settings import at_least, either, nothing, plain, plain_settings
from m3dphormer.training import explain, memory
from m3dphormer.training.files import read_json
from m3dphormer.training.loop import PARTS, Epoch, Keeper, Watch, fit, predict, score
from m3dphormer.training.metrics import check_metric
from m3dphormer.training.no_room import telling_of_no_room
from m3dphormer.training.progress import progress
from m3dphormer.training.scaling import scaled, scaling_of
from m3dphormer.training.settings import resolve

OWN = ("model", "seed", "metric", "device", "verbose")  # parameters; all others are settings


class NodeClassifier:
    """Classify the nodes of a graph.

    Args:
        model: Name of a registered model.
        seed: Chooses the initial weights and the dropout.
        metric: "accuracy", "roc_auc" or "f1"; None: what the graph says.
        device: Where to compute, such as "cpu" or "cuda".
        verbose: Show a progress bar when stderr is a terminal.
        **settings: Settings of the model and of training: hidden, layers, heads, clusters, lr, ...

    After ``fit``: ``model_``, ``classes_``, ``history_``, ``memory_``.
    """

    model_: Model
    classes_: np.ndarray
    history_: tuple[Epoch, ...]
    memory_: memory.Memory

    def __init__(
        self,
        model: str = "m3dphormer",
        *,
        seed: int = 0,
        metric: str | None = None,
        device: str = "cpu",
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        self.model = model
        self.seed = seed
        self.metric = metric
        self.device = device
        self.verbose = verbose
        self.settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor was given, by name; ``deep`` is there for scikit-learn."""
        return {**{name: getattr(self, name) for name in OWN}, **self.settings}

    def set_params(self, **parameters: Any) -> NodeClassifier:
        """Change parameters; like the constructor it only stores, and ``fit`` validates."""
        for name, value in parameters.items():
            if name in OWN:
                setattr(self, name, value)
            else:
                self.settings = {**self.settings, name: value}
        return self

    def fit(
        self,
        data: Data,
        watch: Watch = lambda epoch: None,
        keeper: Keeper | None = None,
        seconds: float = math.inf,
    ) -> NodeClassifier:
        """Train on ``data.train_mask``; the epoch with the best validation score is kept.

        Ctrl-C or a loss that is not a number raises, with the best epoch before it kept.

        Args:
            data: From ``m3d.load`` or any of the ``from_...`` functions, or a PyG Data of yours.
            watch: Called with every finished ``Epoch``.
            keeper: A ``Checkpoint`` to go on from and to write to.
            seconds: Stop after so much training time.
        """
        model_config, train_config = resolve(self.model, self.settings)
        seed = at_least(0).check("seed", self.seed)
        device = find_device(self.device)
        data = from_data(data).to(device)
        metric = check_metric(self.metric or data.metric, data)
        scaling = scaling_of(data, train_config.features)
        data = scaled(data, scaling)
        own_chance = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
        with own_chance, telling_of_no_room(f"{self.model} on {data.name}"):
            torch.manual_seed(seed)
            network = model_type(self.model)(data.num_features, class_count(data), model_config)
            network = network.to(device)
            cluster = network.partition(data)
            if cluster is not None:
                data.cluster = cluster
            graph = network.prepare(data)
            title = f"{data.name}, seed {seed}"
            with progress(title, train_config.epochs, self.verbose) as show:

                def both(epoch: Epoch) -> None:
                    show(epoch)
                    watch(epoch)

                result = fit(network, graph, data, train_config, metric, both, keeper, seconds)
        self.model_ = network
        self.classes_ = np.array(data.label_names)
        self.history_ = result.history
        with torch.no_grad():
            states = network.virtual_states(graph)
        self.memory_ = memory.Memory.of(data, metric, result.best, states, scaling)
        if result.failure is not None:
            raise result.failure
        return self

    def predict_proba(self, data: Data) -> np.ndarray:
        """Probability of each class for every node, [N, C], in the order of ``classes_``.

        The graph may be another than the one of ``fit``: its nodes are matched by id, a new one
        joins the cluster of its neighbours, and labels are ignored.
        """
        graph = self._graph(from_data(data, labels=False))
        return predict(self.model_, graph)

    def predict(self, data: Data) -> np.ndarray:
        """Name of the most probable class of every node, [N]."""
        best = self.predict_proba(data).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, data: Data, part: str = "test") -> float:
        """Score on one part of the graph's split: "train", "val" or "test"."""
        if part not in PARTS:
            raise UserError(f"The 'part' parameter must be one of train, val, test. Got {part!r}.")
        data = from_data(data)
        graph = self._graph(data)
        number = {name: i for i, name in enumerate(self.classes_)}
        data.y = torch.tensor([*(number.get(name, -1) for name in data.label_names), -1])[data.y]
        return score(predict(self.model_, graph), data, part, self.memory_.metric)

    def gates(self, data: Data) -> np.ndarray:
        """How much of each expert every node takes, [layers, N, experts]."""
        graph = self._graph(from_data(data, labels=False))
        return self._gates(graph)

    def explain(self, data: Data, node: object, top: int | None = 10) -> pd.DataFrame:
        """Whom a node attends to: its strongest keys per layer and expert.

        Args:
            data: A graph as for ``predict``.
            node: The node's id; its position in a graph without ids.
            top: How many keys of each expert; None: all, so that the weights sum to 1.

        Returns:
            One row a key: layer (from 1), expert, kind (node, cluster, class or virtual), key (an
            id, a cluster's number, a class), weight (the mean over the heads), head_1, ...
        """
        top = either(at_least(1), nothing()).check("top", top)
        data = from_data(data, labels=False)
        graph = self._graph(data)
        ids = node_ids(data)
        names = {"nodes": ids, "classes": self.classes_.tolist()}
        if self.memory_.cluster is not None:
            names["clusters"] = np.unique(self.memory_.clusters(data)).tolist()
        with torch.no_grad():
            layers = self.model_.attention(graph, explain.position(data.name, ids, node))
        return explain.table(layers, names, top)

    def predictions(self, data: Data) -> pd.DataFrame:
        """One row a node: id, label, p_<label>..., and the gates averaged over the layers."""
        data = from_data(data, labels=False)
        graph = self._graph(data)
        probabilities = predict(self.model_, graph)
        ids = node_ids(data)
        columns = {"id": ids, "label": self.classes_[probabilities.argmax(axis=1)]}
        columns |= {f"p_{name}": p for name, p in zip(self.classes_, probabilities.T, strict=True)}
        if self.model_.gate_names:
            mean = self._gates(graph).mean(axis=0)
            names = self.model_.gate_names
            columns |= {f"gate_{name}": gate for name, gate in zip(names, mean.T, strict=True)}
        return pd.DataFrame(columns)

    def save(self, folder: str | Path) -> None:
        """Write the classifier to a folder."""
        parameters = {"model": self.model, "seed": plain(self.seed), "metric": self.metric}
        settings = plain_settings(self.settings)
        memory.save(Path(folder), {**parameters, "settings": settings}, self._fitted(), self.model_)

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> NodeClassifier:
        """Read a saved classifier; from the folder of a run, the seed with the best validation."""
        folder = Path(folder)
        if (folder / "summary.json").is_file():
            best = read_json(folder / "summary.json", "best_seed")["best_seed"]
            folder = folder / f"seed{best}"
        _refuse_other_folders(folder)
        parameters, remembered, weights = memory.load(folder)
        settings = parameters.pop("settings")
        self = cls(**parameters, device=device, **settings)
        model_config, _ = resolve(self.model, settings)
        classes = len(remembered.label_names)
        self.model_ = model_type(self.model)(remembered.features, classes, model_config)
        try:
            self.model_.load_state_dict(weights)
        except RuntimeError:
            raise UserError(
                f"{folder / 'weights.safetensors'} does not fit model.json beside it; train again."
            ) from None
        self.model_.to(find_device(device)).eval()
        self.classes_ = np.array(remembered.label_names)
        self.memory_ = remembered
        self.history_ = ()
        return self

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"NodeClassifier({self.model!r}, seed={self.seed}{settings})"

    def _fitted(self) -> memory.Memory:
        if not hasattr(self, "memory_"):
            raise UserError("This NodeClassifier is not fitted yet; call fit(data) first.")
        return self.memory_

    def _graph(self, data: Data) -> Any:
        device = find_device(self.device)
        known, states = self._fitted().recall(data)
        states = {role: state.to(device) for role, state in states.items()}
        return self.model_.prepare_unseen(known.to(device), states)

    def _gates(self, graph: Any) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(self.model_.gates(graph).cpu().numpy())


def _refuse_other_folders(folder: Path) -> None:
    """Say what a folder lacks that holds no classifier."""
    if (folder / "model.json").is_file():
        return
    if (folder / "config.json").is_file():
        raise UserError(
            f"{folder} is not finished; go on with m3dphormer train "
            f"{read_json(folder / 'config.json').get('dataset')} --resume --out {folder}, or name "
            f"one of its seeds, such as {folder / 'seed0'}."
        )
    raise UserError(f"{folder} holds no run and no classifier; m3dphormer train makes one.")


def node_ids(data: Data) -> Sequence[object]:
    """One id a node: the user's, else its position."""
    ids: Sequence[object] = data.node_ids if "node_ids" in data else range(int(data.num_nodes))
    return ids


def find_device(name: str) -> torch.device:
    """The device of that name, tried out."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError):
        raise UserError(f"Device {name!r} is not available here; take cpu.") from None
    return device
