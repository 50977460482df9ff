"""What every network of the registry is: weights, apart from the graph they are applied to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from m3dphormer.attention.planner import PlannedRegion, Work
from m3dphormer.errors import UserError
from m3dphormer.models.settings import at_least, between, setting


@dataclass(frozen=True)
class ModelConfig:
    """Settings every model has; a model's own config adds to them."""

    hidden: int = setting(64, at_least(1), search=(64, 128, 256))
    layers: int = setting(2, at_least(1), search=(2, 3, 4))
    dropout: float = setting(0.5, between(0, 1), search=(0.3, 0.5, 0.7))


def check_heads(hidden: int, heads: int) -> None:
    """Refuse heads that cannot share the hidden width."""
    if hidden % heads:
        raise UserError(f"The 'heads' parameter must divide hidden={hidden}. Got {heads}.")


@dataclass(frozen=True)
class Attention:
    """One row's attention in one expert of one layer.

    Args:
        expert: The expert's name.
        role: [k] what each key is: nodes, clusters, classes or virtual.
        key: [k] its number among those of its role; of a class node, its class.
        weights: [k, H], columns that sum to 1.
    """

    expert: str
    role: tuple[str, ...]
    key: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Phase:
    """A stretch of training.

    Args:
        name: What ``Model.enter`` is told.
        epochs: How many; those that no phase takes go to the last one.
        from_best: Begin from the weights with the best validation score so far.
    """

    name: str
    epochs: int
    from_best: bool = False


class Model(nn.Module, ABC):
    """A network for node classification: ``Model(features, classes, config)``.

    ``prepare`` turns a graph into whatever the forward pass needs, once; the weights never
    depend on the graph's size, so a model can be applied to another graph.

    A model that is trained in its own way says so by ``loss``, ``losses``, ``phases`` with
    ``enter``, and ``parameter_groups``; the loop is the same for all.
    """

    config_type: ClassVar[type[ModelConfig]] = ModelConfig
    gate_names: tuple[str, ...] = ()

    @abstractmethod
    def __init__(self, features: int, classes: int, config: Any) -> None:
        super().__init__()

    def partition(self, data: Data) -> Tensor | None:
        """The cluster of each node, [N], for a model that uses clusters; kept with a run."""
        return None

    def extras(self, data: Data) -> dict[str, Tensor]:
        """What else the model adds to a graph that its nodes alone do not settle, by name.

        ``prepare`` takes a tensor of that name from ``data`` where there is one. As PyG has it, a
        name with "index" holds numbers of nodes, any other one row a node.
        """
        return {}

    @abstractmethod
    def prepare(self, data: Data) -> Any:
        """Everything about the graph that stays the same from step to step."""

    def virtual_states(self, graph: Any) -> dict[str, Tensor]:
        """What each layer reads of the virtual rows, by role [layers, rows, hidden].

        Taken in evaluation mode on the training graph, and kept with the run.
        """
        return {}

    def prepare_unseen(self, data: Data, states: Mapping[str, Tensor]) -> Any:
        """``prepare`` for prediction: no label counts, virtual rows are constants.

        Args:
            data: Without labels; ``data.cluster`` says where each node belongs, if the model asks.
            states: From ``virtual_states``, of those clusters that have a node here.
        """
        return self.prepare(data)

    @abstractmethod
    def forward(self, graph: Any) -> Tensor:
        """Logits of the real nodes, [N, C]."""

    def loss(self, graph: Any, data: Data) -> Tensor:
        """What a training step minimises: cross-entropy over the training nodes."""
        logits: Tensor = self(graph)
        return cross_entropy(logits[data.train_mask], data.y[data.train_mask])

    def losses(self, graph: Any, data: Data) -> Iterator[Tensor]:
        """What the steps of one epoch minimise, one after the other: a model of mini-batches."""
        yield self.loss(graph, data)

    def phases(self, epochs: int) -> Sequence[Phase]:
        """How a training of so many epochs is divided."""
        return (Phase("whole", epochs),)

    def enter(self, phase: str) -> None:
        """Be in a phase: which weights are trained, what the forward pass does.

        Called before every epoch. What the forward pass of an evaluation depends on is a buffer, so
        that it is saved with the weights.
        """
        return None

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """The optimiser's groups, for a model that decays some weights otherwise."""
        return [{"params": list(self.parameters())}]

    def attention(self, graph: Any, row: int) -> list[list[Attention]]:
        """Whom a row attends to in evaluation mode, by layer and expert."""
        raise UserError(f"{type(self).__name__} cannot explain itself; M3Dphormer can.")

    def gates(self, graph: Any) -> Tensor:
        """How much of each expert every real node takes, [layers, N, experts]."""
        raise UserError(f"{type(self).__name__} has no gates; M3Dphormer has.")

    def regions(self, graph: Any) -> list[PlannedRegion]:
        """The compute plan: how each region of its masks is computed; a model may have none."""
        return []

    def works(self, graph: Any, data: Data, scheme: str) -> list[Work] | None:
        """What a training step and an evaluation hold and do; None: there is no forecast."""
        return None
