"""One measurement in a process of its own: ``python -m ...bench.worker JSON`` prints JSON rows.

A process of its own, because the heap's settings and the peak of resident memory belong to one.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from m3dphormer.experiments.bench import cases, rivals
from m3dphormer.graph import load
from m3dphormer.masks import Mask, l2
from m3dphormer.models import Model, create_model
from m3dphormer.training.loop import adam
from m3dphormer.training.resident import peak_resident, reset_peak
from m3dphormer.training.settings import TrainConfig

Row = dict[str, Any]


def main() -> None:
    """Do what the JSON object in the first argument asks for."""
    task = json.loads(sys.argv[1])
    torch.set_num_threads(task.pop("threads"))
    rows = PARTS[task.pop("part")](**task)
    print(json.dumps(rows))


def time_attention(
    graph: str, root: str | None, kind: str, seconds: float, repeats: int
) -> list[Row]:
    """Forward and backward of one attention over l2, all forms interleaved."""
    shape = cases.shape_of(graph)
    mask = l2(load(graph, root=root))
    steps = {
        name: _attention_step(name, kind, mask, shape.heads, shape.head_width)
        for name in cases.forms(kind, mask.layout.total)
    }
    return _interleaved(steps, seconds, repeats)


def time_epochs(graph: str, root: str | None, seconds: float, repeats: int) -> list[Row]:
    """Training step and evaluation of M3Dphormer, all schemes interleaved."""
    shape, data = cases.shape_of(graph), load(graph, root=root)
    steps = {name: _epoch(data, shape, name) for name in cases.EPOCHS}
    return _interleaved(steps, seconds, repeats)


def peak_attention(graph: str, root: str | None, kind: str, name: str) -> list[Row]:
    """Peak memory of one attention, forward and backward, above what was there before."""
    shape = cases.shape_of(graph)
    mask = l2(load(graph, root=root))
    return [_attention_peak(name, kind, mask, shape.heads, shape.head_width)]


def peak_epoch(graph: str, root: str | None, name: str) -> list[Row]:
    """Peak memory of two epochs above the state before the first."""
    shape, data = cases.shape_of(graph), load(graph, root=root)
    epoch = _epoch(data, shape, name)
    before = reset_peak()
    epoch()
    epoch()
    return [{"scheme": name, "peak_bytes": peak_resident() - before}]


def growth(
    graph: str, nodes: int, root: str | None, name: str, kind: str, seconds: float, repeats: int
) -> list[Row]:
    """Time and memory of one attention on a random graph of fixed degree."""
    mask = l2(cases.RANDOM_GRAPHS[graph](nodes))
    row = _attention_peak(name, kind, mask, **cases.GROWN)
    step = _attention_step(name, kind, mask, **cases.GROWN)
    (timed,) = _interleaved({name: step}, seconds, repeats)
    return [{**row, **timed, "nnz": mask.nnz}]


TURN = 0.02  # seconds
PARTS: dict[str, Callable[..., list[Row]]] = {
    "attention": time_attention,
    "epochs": time_epochs,
    "attention memory": peak_attention,
    "epoch memory": peak_epoch,
    "growth": growth,
}


def _attention_step(
    name: str, kind: str, mask: Mask, heads: int, head_width: int
) -> Callable[[], None]:
    rows = mask.layout.total
    attention = rivals.build(name, kind, mask, heads, head_width, cases.DROPOUT)
    leaves = rivals.inputs(kind, rows, heads, head_width)
    outside = torch.ones(rows, heads, head_width)
    calls = iter(range(2**62))

    def step() -> None:
        out = attention(leaves, next(calls))
        torch.autograd.grad(out, leaves, outside)

    return step


def _attention_peak(name: str, kind: str, mask: Mask, heads: int, head_width: int) -> Row:
    few = l2(cases.erdos_renyi(64))
    _attention_step(name, kind, few, heads, head_width)()  # the code itself is loaded here
    small = rivals.inputs(kind, mask.layout.total, 1, 1)
    warm = rivals.build(name, kind, mask, 1, 1, cases.DROPOUT)
    torch.autograd.grad(warm(small, 0).sum(), small)  # index structures are made here
    step = _attention_step(name, kind, mask, heads, head_width)
    leaves = rivals.inputs(kind, mask.layout.total, heads, head_width)
    floor = sum(_bytes(leaf) for leaf in leaves) + _bytes(leaves[-1])  # gradients and the output
    before = reset_peak()
    step()
    return {"scheme": name, "peak_bytes": peak_resident() - before, "floor_bytes": floor}


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _network(data: Data, shape: cases.Shape, name: str) -> Model:
    """M3Dphormer under a scheme, or PolyNormer of the same width and depth in its public form."""
    torch.manual_seed(0)
    if name == cases.POLYNORMER:
        model = create_model(
            "polynormer",
            data,
            hidden=shape.head_width,
            heads=shape.heads,
            layers=shape.layers - 1,
            global_layers=1,
            engine="pyg",
        )
        model.enter("global")
        return model
    return create_model(
        "m3dphormer",
        data,
        hidden=shape.width,
        layers=shape.layers,
        heads=shape.heads,
        clusters=shape.clusters,
        attention_dropout=cases.DROPOUT,
        scheme=name,
    )


def _epoch(data: Data, shape: cases.Shape, name: str) -> Callable[[], None]:
    model = _network(data, shape, name)
    graph = model.prepare(data)
    optimiser = adam(model, TrainConfig())

    def epoch() -> None:
        model.train()
        optimiser.zero_grad()
        model.loss(graph, data).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        model.eval()
        with torch.no_grad():
            model(graph)

    return epoch


def _interleaved(steps: dict[str, Callable[[], None]], seconds: float, repeats: int) -> list[Row]:
    """Rounds in which each step has its turn, until the time is up.

    A turn is one call that does not count, since the step before has emptied the caches, and
    then calls for TURN seconds, at least one.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    start, rounds = time.perf_counter(), 0
    while rounds < repeats or time.perf_counter() - start < seconds:
        rounds += 1
        for name, step in steps.items():
            step()
            turn = began = time.perf_counter()
            while began == turn or began < turn + TURN:
                step()
                ended = time.perf_counter()
                times[name].append(ended - began)
                began = ended
    rows = []
    for name, taken in times.items():
        low, median, high = statistics.quantiles(taken, n=4, method="inclusive")
        rows.append(
            {"scheme": name, "median": median, "q1": low, "q3": high, "repeats": len(taken)}
        )
    return rows


if __name__ == "__main__":
    main()
