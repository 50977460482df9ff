"""``compare``: trains what is missing, one row a run as it comes, and gives the verdict on all."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.data import Data

from m3dphormer.errors import UserError, notice
from m3dphormer.graph import check_seeds, content_hash, load
from m3dphormer.models import model_type
from m3dphormer.models.settings import at_least, plain_settings
from m3dphormer.training.compare.runs import ORIGIN, Row, Runs, settings_text
from m3dphormer.training.compare.verdict import Comparison, verdict
from m3dphormer.training.files import write_json
from m3dphormer.training.metrics import check_metric
from m3dphormer.training.recipes import find_recipe
from m3dphormer.training.settings import resolve

if TYPE_CHECKING:
    from m3dphormer.training.tuned import Tuned

Watch = Callable[[str], None]
Task = dict[str, Any]


def compare(
    dataset: str,
    models: Sequence[str],
    *,
    seeds: int = 5,
    settings: Mapping[str, Any] | None = None,
    trials: int = 0,
    root: str | None = None,
    out: str | None = None,
    metric: str | None = None,
    imports: Sequence[str] = (),
    origin: Mapping[str, str] | None = None,
    watch: Watch = lambda line: None,
) -> Comparison:
    """Train every model ``seeds`` times, run i on split i with initial seed i, and compare.

    What ``runs.csv`` has under the same settings is not trained again. A model that cannot be
    trained is left out, and a notice says why.

    Args:
        dataset: A known name or a path.
        models: Names of registered models.
        settings: Settings for all of them, above those of their recipes.
        trials: How many trials to tune each model with first; 0: its recipe as it is.
        root: Where raw benchmark files lie.
        out: Folder for ``runs.csv`` and ``comparison.json``; None: ``compare/<dataset>``.
        imports: Python files that register models, for the processes that train.
        origin: Where the numbers come from, a cell for each of ``runs.ORIGIN``.
        watch: Told about every run.
    """
    seeds = at_least(1).check("seeds", seeds)
    trials = at_least(0).check("trials", trials)
    if not models:
        raise UserError("There is no model to compare; name some, or take all.")
    given = plain_settings(settings)
    plans = [_plan(dataset, model, given) for model in dict.fromkeys(models)]
    data = load(dataset, root=root)
    check_seeds(data, seeds)
    metric = check_metric(metric or data.metric, data)
    folder = Path(out or f"compare/{data.name}")
    runs = Runs(folder / "runs.csv")
    search = _search() if trials else None
    runs.begin()
    job = Job(dataset, root, metric, data, runs, tuple(imports), origin or {}, watch)
    rows: dict[str, list[Row]] = {}
    for at, plan in enumerate(plans):
        if search is not None:
            try:
                plan = _tuned(search, job, plan, given, trials)
            except UserError as error:
                notice(f"{plan.model} is left out: {error}")
                continue
        finished = job.run(plan, seeds, f"model {at + 1} of {len(plans)}, {plan.model}")
        if len(finished) == seeds:
            rows[plan.model] = finished
    if not rows:
        raise UserError(f"No model could be trained on {data.name}; the notices say why.")
    _tell_of_few(data, seeds)
    found = verdict(data, metric, rows, str(folder))
    write_json(folder / "comparison.json", asdict(found))
    return found


def _tell_of_few(data: Data, seeds: int) -> None:
    """What keeps an interval from being there, or from meaning what it does elsewhere."""
    if seeds < 2:
        notice("A single seed gives no interval and no p; take --seeds 5.")
    elif "split_count" in data and data.split_count == 1:
        notice(f"{data.name} has one split: the intervals tell of the initial weights alone.")


@dataclass(frozen=True)
class Plan:
    """What a model is trained with: what was said, and all that it amounts to as text."""

    model: str
    recipe: str | None
    given: Mapping[str, Any]
    whole: str


def _plan(dataset: str, model: str, given: Mapping[str, Any]) -> Plan:
    """The model's recipe under the given settings; a mistake is told before the work."""
    model_type(model)
    recipe = find_recipe(None, model, dataset)
    return _resolved(model, recipe.name, {**recipe.settings, **given})


def _search() -> Callable[..., Tuned]:
    """The function that tunes; without the extra 'tune' this tells before the work."""
    from m3dphormer.training.tune import tune

    return tune


def _tuned(
    search: Callable[..., Tuned], job: Job, plan: Plan, given: Mapping[str, Any], trials: int
) -> Plan:
    """The best settings of a search by validation on other splits, as long as the recipe trains."""
    kept = {name: plan.given[name] for name in ("epochs", *given) if name in plan.given}
    tuned = search(
        job.dataset,
        model=plan.model,
        trials=trials,
        settings=kept,
        root=job.root,
        out=str(job.runs.path.parent / "tune" / plan.model.replace("*", "-star")),
        metric=job.metric,
        watch=lambda trial: job.watch(f"{plan.model}, trial {trial.number + 1} of {trials}"),
    )
    if tuned.interrupted:
        raise KeyboardInterrupt
    return _resolved(plan.model, f"tuned, {trials} trials", tuned.best.settings)


def _resolved(model: str, recipe: str | None, given: Mapping[str, Any]) -> Plan:
    config, training = resolve(model, given)
    return Plan(model, recipe, given, settings_text({**asdict(config), **asdict(training)}))


def _whole(model: str, settings: str) -> str | None:
    """Settings of an earlier run as a plan has them: what was no setting then has its default."""
    try:
        return _resolved(model, None, json.loads(settings)).whole
    except (UserError, ValueError):  # a setting that is none any more: another training
        return None


@dataclass(frozen=True)
class Job:
    """What all models of a comparison share."""

    dataset: str
    root: str | None
    metric: str
    data: Data
    runs: Runs
    imports: tuple[str, ...]
    origin: Mapping[str, str]
    watch: Watch

    def run(self, plan: Plan, seeds: int, title: str) -> list[Row]:
        """The rows of a model by seed, trained where they are missing; fewer if one failed."""
        labels: Row = {
            "dataset": self.data.name,
            "graph": content_hash(self.dataset, self.data),
            "model": plan.model,
            "metric": self.metric,
        }
        rows = {
            row["seed"]: row
            for row in self.runs.read()
            if labels.items() <= row.items() and _whole(plan.model, row["settings"]) == plan.whole
        }
        missing = [seed for seed in range(seeds) if seed not in rows]
        if len(missing) < seeds:
            self.watch(f"{title}: {seeds - len(missing)} of {seeds} seeds are there already")
        for told in in_a_process(self._task(plan, missing)) if missing else ():
            if "failed" in told:
                notice(f"{plan.model} is left out: {told['failed']}")
                break
            used = {"recipe": plan.recipe, "settings": plan.whole}
            row = {**labels, **used, **dict.fromkeys(ORIGIN), **self.origin, **told}
            self.runs.add(row)
            rows[told["seed"]] = row
            scores = f"test {told['test']:.2f}, validation {told['validation']:.2f}"
            self.watch(f"{title}, seed {told['seed']}: {scores}, {told['seconds']:.1f} s")
        return [rows[seed] for seed in range(seeds) if seed in rows]

    def _task(self, plan: Plan, seeds: Sequence[int]) -> Task:
        return {
            "dataset": self.dataset,
            "root": self.root,
            "model": plan.model,
            "metric": self.metric,
            "settings": plan.given,
            "seeds": seeds,
            "threads": torch.get_num_threads(),
            "imports": self.imports,
        }


def in_a_process(task: Task) -> Iterator[Row]:
    """What a process of its own tells, run by run; ``failed`` says what ended it too early."""
    command = [sys.executable, "-m", "m3dphormer.training.compare.worker", json.dumps(task)]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:  # Ctrl-C, or nobody listens any more
            process.terminate()
            raise
        if process.wait():
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["without a word"])[-1]
            yield {"failed": f"its process ended with code {process.returncode}, {last}."}
