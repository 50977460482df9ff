"""Before a run: what is computed how, what it holds and how long it takes."""

from m3dphormer.attention.planner.forms import structured_work
from m3dphormer.attention.planner.rates import Rates, between, machine_rates
from m3dphormer.attention.planner.regions import PlannedRegion, plan_mask
from m3dphormer.attention.planner.room import available_memory
from m3dphormer.attention.planner.schemes import Shape, scheme_works
from m3dphormer.attention.planner.work import (
    Work,
    peak,
    recomputed_work,
    seconds,
    together,
    trained_in_part,
    without_index,
)

__all__ = [
    "PlannedRegion",
    "Rates",
    "Shape",
    "Work",
    "available_memory",
    "between",
    "machine_rates",
    "peak",
    "plan_mask",
    "recomputed_work",
    "scheme_works",
    "seconds",
    "structured_work",
    "together",
    "trained_in_part",
    "without_index",
]
