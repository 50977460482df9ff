"""What holds for every registered model, whatever it computes; ``check_model`` tries it all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.graph import class_count, from_arrays
from m3dphormer.models.base import Model
from m3dphormer.models.registry import create_model

Check = Callable[[str], None]


def check_model(name: str) -> None:
    """Run every contract of ``CHECKS`` on a registered model; torch's generator stays as it is.

    Raises:
        AssertionError: One line with the contract that does not hold, and by how much.
    """
    with torch.random.fork_rng(devices=[]):
        for check in CHECKS:
            check(name)


def random_graph(
    nodes: int = 60, classes: int = 3, features: int = 5, degree: float = 4.0, seed: int = 0
) -> Data:
    """A finished graph whose features tell the class a little; node 0 is isolated."""
    rng = np.random.RandomState(seed)
    y = rng.randint(classes, size=nodes)
    y[:classes] = range(classes)
    edges = 1 + rng.randint(nodes - 1, size=(2, int(nodes * degree / 2)))
    x = rng.standard_normal((nodes, features)) + np.eye(classes, features)[y]
    return from_arrays(x, edges, y, name="random", split=seed)


def relabelling_the_nodes_permutes_the_logits_and_nothing_else(name: str) -> None:
    """To 1e-9 in float64."""
    _relabel(name, torch.float64, 1e-9)


def relabelling_holds_in_float32(name: str) -> None:
    """To 1e-5."""
    _relabel(name, torch.float32, 1e-5)


def the_order_of_edges_does_not_matter(name: str) -> None:
    """To 1e-9 in float64."""
    model, data = _model_and_graph(name)
    before = _logits(model, data)
    data.edge_index = data.edge_index.flip(1)
    _demand_close(name, "the order of edges changes the logits", _logits(model, data), before, 1e-9)


def every_parameter_gets_a_gradient(name: str) -> None:
    """From one epoch of a phase that trains it, and every parameter is trained in some phase."""
    model, data = _model_and_graph(name)
    graph, idle = model.prepare(data), {n for n, _ in model.named_parameters()}
    model.train()
    for phase in dict.fromkeys(phase.name for phase in model.phases(100)):
        model.enter(phase)
        trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        model.zero_grad()
        for loss in model.losses(graph, data):
            loss.backward()  # type: ignore[no-untyped-call]
        without = [n for n, p in trained.items() if p.grad is None or not p.grad.any()]
        _demand(name, not without, f"no gradient reaches {', '.join(without)} ({phase})")
        idle -= trained.keys()
    _demand(name, not idle, f"no phase trains {', '.join(sorted(idle))}")


def labels_outside_the_training_set_do_not_count(name: str) -> None:
    """Neither in the loss nor in the logits."""
    model, data = _model_and_graph(name)
    other = data.clone()
    other.y = torch.where(data.train_mask, data.y, (data.y + 1) % class_count(data))
    same = torch.equal(_logits(model, other), _logits(model, data))
    _demand(name, same, "labels outside the training set change the logits")
    model.eval()
    losses = [model.loss(model.prepare(graph), graph) for graph in (data, other)]
    _demand(name, torch.equal(*losses), "labels outside the training set change the loss")


def the_same_seed_gives_the_same_bits_in_training(name: str) -> None:
    """Initial weights and dropout come from torch's generator alone."""
    losses = []
    for _ in range(2):
        model, data = _model_and_graph(name, seed=3)
        losses.append(model.train().loss(model.prepare(data), data))
    _demand(name, torch.equal(*losses), "the same seed gives another loss")


def evaluation_is_without_chance(name: str) -> None:
    """Twice the same bits."""
    model, data = _model_and_graph(name)
    same = torch.equal(_logits(model, data), _logits(model, data))
    _demand(name, same, "two evaluations differ")


def a_graph_without_labels_can_be_predicted(name: str) -> None:
    """With the virtual rows of training it gives the logits of training, to 1e-9 in float64."""
    model, data = _model_and_graph(name)
    with torch.no_grad():
        states = model.eval().virtual_states(model.prepare(data))
        bare = data.clone()
        bare.y, bare.train_mask = torch.full_like(data.y, -1), torch.zeros_like(data.train_mask)
        found = model(model.prepare_unseen(bare, states))
    _demand_close(name, "prediction needs labels", found, _logits(model, data), 1e-9)


def weights_are_all_there_is_to_save(name: str) -> None:
    """Written, read and put into a fresh model after a step, they give the same bits."""
    model, data = _model_and_graph(name)
    model.train().loss(model.prepare(data), data)
    other, _ = _model_and_graph(name, seed=1)
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    other.load_state_dict(load(save(weights)))
    same = torch.equal(_logits(other, data), _logits(model, data))
    _demand(name, same, "saved weights give other logits")


def isolated_nodes_and_one_feature_are_served(name: str) -> None:
    """A graph without an edge gives finite logits, loss and gradients."""
    bare = random_graph(features=1)
    bare.edge_index = bare.edge_index[:, :0]
    model, data = _model_and_graph(name, data=bare)
    loss = model.train().loss(model.prepare(data), data)
    loss.backward()  # type: ignore[no-untyped-call]
    found = [loss, _logits(model, data), *(p.grad for p in model.parameters())]
    finite = all(t.isfinite().all() for t in found if t is not None)
    _demand(name, finite, "isolated nodes give numbers that are not finite")


CHECKS: tuple[Check, ...] = (
    relabelling_the_nodes_permutes_the_logits_and_nothing_else,
    relabelling_holds_in_float32,
    the_order_of_edges_does_not_matter,
    every_parameter_gets_a_gradient,
    labels_outside_the_training_set_do_not_count,
    the_same_seed_gives_the_same_bits_in_training,
    evaluation_is_without_chance,
    a_graph_without_labels_can_be_predicted,
    weights_are_all_there_is_to_save,
    isolated_nodes_and_one_feature_are_served,
)


def _model_and_graph(
    name: str,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    data: Data | None = None,
) -> tuple[Model, Data]:
    """A fresh model, and a graph with the partition and the extras the model asks for."""
    data = random_graph() if data is None else data
    data.x = data.x.to(dtype)
    torch.manual_seed(seed)
    model = create_model(name, data, hidden=8, layers=2).to(dtype)
    cluster = model.partition(data)
    if cluster is not None:
        data.cluster = cluster
    for key, value in model.extras(data).items():
        data[key] = value
    return model, data


def _logits(model: Model, data: Data) -> Tensor:
    model.eval()
    with torch.no_grad():
        logits: Tensor = model(model.prepare(data))
    return logits


def _relabel(name: str, dtype: torch.dtype, tolerance: float) -> None:
    model, data = _model_and_graph(name, dtype)
    order = torch.randperm(int(data.num_nodes), generator=torch.Generator().manual_seed(1))
    place, moved = torch.argsort(order), data.clone()
    extras = model.extras(data)
    for key in ("edge_index", "x", "y", "train_mask", "val_mask", "test_mask", "cluster", *extras):
        if key in data:
            moved[key] = place[data[key]] if "index" in key else data[key][order]
    what = "relabelling the nodes does more than permute the logits"
    _demand_close(name, what, _logits(model, moved), _logits(model, data)[order], tolerance)


def _demand_close(name: str, broken: str, found: Tensor, expected: Tensor, most: float) -> None:
    difference = float((found - expected).abs().max())
    _demand(name, difference <= most, f"{broken} by {difference:.1e} (at most {most:g})")


def _demand(name: str, holds: bool, broken: str) -> None:
    if not holds:
        raise AssertionError(f"{name}: {broken}.")
