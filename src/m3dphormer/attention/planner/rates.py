"""How fast this machine is: seven rates, measured once in about a second and kept in the cache."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from m3dphormer.attention.attend import attend
from m3dphormer.attention.structure import maps, passes
from m3dphormer.graph.cache import cache_dir, write_atomically
from m3dphormer.masks import Mask
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.regions import Edges

FRESH_FROM = 32 * 2**20  # bytes from which glibc asks the system for every tensor anew
FORMAT = 3
ROWS, WIDTH, HEADS, DEGREE = 8192, 64, 2, 8
RING = 4  # tensors of 8 MB that are read in turn: together more than a core's own cache holds
SHARE = 0.15  # seconds for each rate


@dataclass(frozen=True)
class Rates:
    """Work a second.

    Args:
        gemm: Floating-point operations of a product [T, d] x [d, d] by torch.
        project: The same by passes of our own, where they serve.
        attend: Numbers (pairs x width) of fused attention, for a training step and an evaluation.
        scatter: Numbers that ``index_add`` takes, half of them in the order of the rows.
        warm: Bytes that an element-wise operator writes to memory at hand, of others not at hand.
        fresh: The same where the system has to give the memory first.
        call: Seconds that an operator takes on next to nothing, gradient included.
    """

    gemm: float
    project: float
    attend: float
    scatter: float
    warm: float
    fresh: float
    call: float


def machine_rates(*, anew: bool = False) -> Rates:
    """The rates of this machine at torch's number of threads, measured where they are not known.

    Args:
        anew: Measure even where they are known.
    """
    threads = torch.get_num_threads()
    path = cache_dir("rates", f"{platform.node() or 'here'}-{threads}-threads.json")
    known = None if anew else _read(path)
    if known is None:
        known = measure_rates()
        text = json.dumps({"format": FORMAT, "torch": torch.__version__, **asdict(known)})
        write_atomically(path, lambda temporary: temporary.write_text(text))
    return known


def between(before: Rates, after: Rates) -> Rates:
    """The rates of a time, from those at its start and its end."""
    first, last = asdict(before), asdict(after)
    return Rates(**{name: (first[name] * last[name]) ** 0.5 for name in first})


def measure_rates() -> Rates:
    """Measure now; the random numbers of the caller are left alone."""
    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw)

    state, weight = normal(ROWS, WIDTH), normal(WIDTH, WIDTH)
    keys = torch.randint(ROWS, (2, ROWS * DEGREE), generator=draw)
    ring, large = normal(RING, 2**21), normal(2 * FRESH_FROM // 4)
    pairs = normal(ROWS * DEGREE, WIDTH)
    few = torch.ones(4, requires_grad=True)
    mask = _mask(keys)
    rows = keys[0].sort().values
    q, k, v = (normal(ROWS, HEADS, WIDTH // HEADS).requires_grad_() for _ in range(3))

    def attention() -> None:
        out = attend(q, k, v, mask, dropout=0.1, seed=0)
        torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
        with torch.no_grad():
            attend(q, k, v, mask)

    def scatter() -> None:
        state.index_add(0, rows, pairs)
        state.index_add(0, keys[0], pairs)

    def project() -> object:
        if not passes.serve(state):
            return state @ weight
        return maps.apply(state, [maps.Map(weight, None, ROWS)])

    def write() -> None:
        for i in range(RING):
            ring[i] * ring[i - 1]

    return Rates(
        gemm=2 * ROWS * WIDTH**2 / _typical(lambda: state @ weight),
        project=2 * ROWS * WIDTH**2 / _typical(project),
        attend=mask.nnz * WIDTH / _typical(attention),
        scatter=2 * pairs.numel() / _typical(scatter),
        warm=4 * ring.numel() / _typical(write),
        fresh=4 * large.numel() / _typical(lambda: large * large),
        call=_typical(lambda: torch.autograd.grad((few * few).sum(), few)) / 4,
    )


def _mask(keys: Tensor) -> Mask:
    layout = Layout(nodes=ROWS)
    region = Edges.of("nodes", "nodes", (keys[0], keys[1]), layout)
    return Mask("random", "local", layout, (region,))


def clock() -> float:
    """Seconds; with one thread those of this process alone, which no other can stretch."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def _typical(step: Callable[[], object]) -> float:
    """Seconds of the median call: the machine as a run will find it, not at its best."""
    step()
    times: list[float] = []
    start = clock()
    while len(times) < 3 or clock() - start < SHARE:
        began = clock()
        step()
        times.append(clock() - began)
    return sorted(times)[len(times) // 2]


def _read(path: Path) -> Rates | None:
    """None where nothing was kept, or by another torch or in another form."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT or content.pop("torch") != torch.__version__:
            return None
        return Rates(**content)
    except (OSError, ValueError, KeyError, TypeError):
        return None
