"""A search in a database: Optuna's, shared by any number of processes, of which any may die.

A trial counts when it is complete or pruned. A study asked for n trials ends with n that count,
whoever ran them:

- A process begins a trial only where counted and running trials are fewer than n. Processes that
  begin one at the same moment compare trial numbers, and the highest give way.
- A running trial writes a heartbeat. Where it stops, the trial is failed by whoever notices, and
  what it had to try goes back into the queue. So does a trial that Ctrl-C ended.
- Nothing is tried twice, and no trial is begun on what a config refuses.

Sampling is TPE over all settings together. Pruning is by the median of the complete trials at the
same epoch, after a third of the epochs: the halving pruners drop three of four long before that,
and with them every small learning rate, which leads late.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from m3dphormer.errors import UserError
from m3dphormer.training.space import Space, combinations

try:
    import optuna
    import sqlalchemy
    from optuna.distributions import BaseDistribution, CategoricalDistribution
    from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
    from optuna.trial import FrozenTrial, Trial, TrialState
except ModuleNotFoundError:
    raise UserError("tune needs the 'tune' extra: pip install 'm3dphormer[tune]'.") from None

HEARTBEAT, GRACE = 5, 60  # seconds between heartbeats, and without one until a trial is given up
LOCK_WAIT = 60  # seconds that SQLite waits for another process
POLL = 1.0  # seconds between looks at what the other processes are doing
FIRST_RANDOM = 8  # trials before TPE has enough to go by
DRAWS = 20  # of TPE, to find a combination that was not tried
COUNTED = (TrialState.COMPLETE, TrialState.PRUNED)
START, SETTINGS, BEGUN, REASON = "start", "settings", "begun", "reason"  # noted with a trial


class Pruned(Exception):
    """A trial that need not go on, and why."""


Report = Callable[[int, float], None]  # takes a step and the score so far; may raise Pruned
Objective = Callable[[Mapping[str, Any], Report], float]  # settings to a score; may raise Pruned


@dataclass(frozen=True)
class Ended:
    """A trial that counts; scores in percent."""

    number: int
    validation: float | None  # of a pruned one the best until then; None: it had no epoch
    pruned: str | None  # why
    start: str | None  # what it is called, where it was not drawn
    settings: dict[str, Any]
    seconds: float

    @classmethod
    def of(cls, trial: FrozenTrial) -> Ended:
        """Read a trial that is complete or pruned."""
        complete = trial.state == TrialState.COMPLETE
        return cls(
            number=trial.number,
            validation=None if trial.value is None else 100 * trial.value,
            pruned=None if complete else trial.user_attrs[REASON],
            start=trial.user_attrs.get(START),
            settings=trial.user_attrs[SETTINGS],
            seconds=trial.duration.total_seconds() if trial.duration else 0.0,
        )


@dataclass(frozen=True)
class Question:
    """What is searched.

    Args:
        space: The values to try for each setting.
        allowed: Whether the configs take a combination.
        fixed: Settings that every trial has.
        starts: Settings to try first, by name; they need not lie in the space.
        warmup: Steps before a trial may be pruned.
    """

    space: Space
    allowed: Callable[[Mapping[str, Any]], bool]
    fixed: Mapping[str, Any]
    starts: Mapping[str, Mapping[str, Any]]
    warmup: int


class Search:
    """A study in a database, and this process's part in it."""

    def __init__(self, url: str, name: str, question: Question, record: Mapping[str, Any]) -> None:
        self.name, self.question = name, question
        self._storage = _open(url)
        with _quietly():
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=name,
                load_if_exists=True,
                direction="maximize",
                pruner=optuna.pruners.MedianPruner(n_warmup_steps=question.warmup),
            )
        _check_same(self._study, record)

    def counted(self) -> list[Ended]:
        """The trials that are complete or pruned, by number."""
        return [Ended.of(trial) for trial in self._study.get_trials(states=COUNTED)]

    def run(
        self,
        objective: Objective,
        trials: int,
        watch: Callable[[Ended], None],
        until: float,
    ) -> None:
        """Try settings until the study has so many counted trials, or nothing new is left.

        Args:
            watch: Called with every trial that ended here.
            until: No trial begins after this ``time.monotonic()``.
        """
        with _quietly():
            while time.monotonic() < until:
                self._give_up_dead()
                all_trials = self._study.get_trials(deepcopy=False)
                if sum(trial.state in COUNTED for trial in all_trials) >= trials:
                    return
                if self._room(all_trials, trials) and self._queue(all_trials):
                    self._one(objective, trials, watch)
                elif any(trial.state == TrialState.RUNNING for trial in all_trials):
                    time.sleep(POLL)  # others are at it; should one die, its trial is ours
                else:
                    return

    def _room(self, all_trials: list[FrozenTrial], trials: int) -> bool:
        busy = (*COUNTED, TrialState.RUNNING)
        return sum(trial.state in busy for trial in all_trials) < trials

    def _queue(self, all_trials: list[FrozenTrial]) -> bool:
        """Queue what must be tried and is not being; False: nothing is left to try."""
        there = {_key(trial): trial.state for trial in all_trials if trial.state != TrialState.FAIL}
        lost = [trial for trial in all_trials if trial.state == TrialState.FAIL and _noted(trial)]
        wanted = [_start(name, settings) for name, settings in self.question.starts.items()]
        for trial in [*wanted, *(_again(trial) for trial in lost)]:
            if _key(trial) not in there:
                there[_key(trial)] = TrialState.WAITING
                self._study.add_trial(trial)
        self._study.sampler = sampler = Untried(self.question, seed=len(all_trials))
        return TrialState.WAITING in there.values() or sampler.any_left(all_trials)

    def _one(self, objective: Objective, trials: int, watch: Callable[[Ended], None]) -> None:
        """Begin a trial and see it through, unless another process was first."""
        trial = self._study.ask()
        # Given up for dead by another process, a trial cannot be changed, and is tried again there.
        with suppress(UpdateFinishedTrialError), _alive(self._storage, trial):
            queued = SETTINGS in trial.user_attrs or bool(trial.params)
            settings = self._settings(trial)
            if self._superfluous(trial, trials) or self._repeated(trial, queued):
                self._tell(trial, TrialState.FAIL)
                return
            trial.set_user_attr(SETTINGS, settings)
            try:
                value = objective(settings, lambda step, score: _report(trial, step, score))
            except Pruned as why:
                trial.set_user_attr(REASON, str(why))
                self._tell(trial, TrialState.PRUNED)
            except BaseException:
                self._tell(trial, TrialState.FAIL)
                raise
            else:
                self._tell(trial, TrialState.COMPLETE, value)
            watch(Ended.of(self._study.get_trials(deepcopy=False)[trial.number]))

    def _settings(self, trial: Trial) -> dict[str, Any]:
        """What a trial tries: noted with it, or drawn."""
        given: dict[str, Any] | None = trial.user_attrs.get(SETTINGS)
        if given is not None and not trial.params:
            return given
        space = self.question.space
        drawn = {name: trial.suggest_categorical(name, values) for name, values in space.items()}
        return {**self.question.fixed, **drawn}

    def _superfluous(self, trial: Trial, trials: int) -> bool:
        """Whether the trials before this one, and those that count, are enough."""
        others = self._others(trial)
        return sum(one.number < trial.number or one.state in COUNTED for one in others) >= trials

    def _repeated(self, trial: Trial, queued: bool) -> bool:
        """Whether another tries the same.

        What was queued, all others knew before, so the first goes on. What was drawn, another may
        have drawn at the same moment: if both give way, it is queued again.
        """
        own = _key(self._study.get_trials(deepcopy=False)[trial.number])
        same = [one for one in self._others(trial) if _key(one) == own]
        return any(one.number < trial.number or not queued for one in same)

    def _others(self, trial: Trial) -> list[FrozenTrial]:
        """The trials beside this one that did not fail."""
        every = self._study.get_trials(deepcopy=False)
        return [o for o in every if o.number != trial.number and o.state != TrialState.FAIL]

    def _tell(self, trial: Trial, state: TrialState, value: float | None = None) -> None:
        self._study.tell(trial, value, state=state, skip_if_finished=True)

    def _give_up_dead(self) -> None:
        """Fail the trials whose process is gone."""
        optuna.storages.fail_stale_trials(self._study)
        oldest = datetime.now() - timedelta(seconds=GRACE)
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            began = trial.datetime_start
            if BEGUN not in trial.user_attrs and began is not None and began < oldest:
                # Its process died before the first heartbeat.
                self._study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


class Untried(optuna.samplers.TPESampler):
    """TPE that proposes only what is allowed and was not tried."""

    def __init__(self, question: Question, seed: int) -> None:
        super().__init__(
            n_startup_trials=FIRST_RANDOM, multivariate=True, constant_liar=True, seed=seed
        )
        self.question, self.seed = question, seed
        self.only = {name: v[0] for name, v in question.space.items() if len(v) == 1}

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        space = self.question.space
        return {n: CategoricalDistribution(v) for n, v in space.items() if n not in self.only}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if trial.params or SETTINGS in trial.user_attrs:
            return {}  # it knows what to try
        tried = _tried(study.get_trials(deepcopy=False))
        for _ in range(DRAWS):
            drawn = super().sample_relative(study, trial, search_space)
            if drawn and self._is_new({**self.only, **drawn}, tried):
                return drawn
        return next(self._new(tried), {})

    def any_left(self, all_trials: Iterable[FrozenTrial]) -> bool:
        """Whether a combination is allowed that was not tried."""
        return next(self._new(_tried(all_trials)), None) is not None

    def _new(self, tried: set[str]) -> Iterator[dict[str, Any]]:
        every = combinations(self.question.space, self.seed)
        return (drawn for drawn in every if self._is_new(drawn, tried))

    def _is_new(self, drawn: Mapping[str, Any], tried: set[str]) -> bool:
        return _text(drawn) not in tried and self.question.allowed(drawn)


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _tried(trials: Iterable[FrozenTrial]) -> set[str]:
    """Combinations that were drawn; a failed one comes back by the queue."""
    return {_text(trial.params) for trial in trials}


def _key(trial: FrozenTrial) -> str:
    """What a trial tries: the combination it drew, else the settings noted with it."""
    return _text(trial.params or trial.user_attrs.get(SETTINGS, {"number": trial.number}))


def _noted(trial: FrozenTrial) -> bool:
    return bool(trial.params) or SETTINGS in trial.user_attrs


def _start(name: str, settings: Mapping[str, Any]) -> FrozenTrial:
    noted = {START: name, SETTINGS: dict(settings)}
    return optuna.create_trial(state=TrialState.WAITING, user_attrs=noted)


def _again(trial: FrozenTrial) -> FrozenTrial:
    noted = {key: value for key, value in trial.user_attrs.items() if key != BEGUN}
    return optuna.create_trial(
        state=TrialState.WAITING,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs=noted,
    )


def _report(trial: Trial, step: int, score: float) -> None:
    trial.report(score, step)
    if trial.should_prune():
        raise Pruned("below the median")


@contextmanager
def _alive(storage: optuna.storages.RDBStorage, trial: Trial) -> Iterator[None]:
    """Write heartbeats meanwhile."""
    storage.record_heartbeat(trial._trial_id)
    trial.set_user_attr(BEGUN, True)
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT):
            try:
                storage.record_heartbeat(trial._trial_id)
            except StorageInternalError:
                continue  # the database is busy; the next one will do

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _open(url: str) -> optuna.storages.RDBStorage:
    """Open a database, and make its tables where there are none."""
    sqlite = url.startswith("sqlite")
    options = {"connect_args": {"timeout": LOCK_WAIT}} if sqlite else {}
    for attempt in range(5):
        try:
            with _quietly():
                storage = optuna.storages.RDBStorage(
                    url, engine_kwargs=options, heartbeat_interval=HEARTBEAT, grace_period=GRACE
                )
            break
        except (ImportError, sqlalchemy.exc.SQLAlchemyError, StorageInternalError) as error:
            reason = str(error).splitlines()[0]
            if "already exists" not in reason or attempt == 4:
                raise UserError(f"The study's database cannot be opened: {reason}") from None
            time.sleep(0.2)  # another process is making the tables
    if sqlite:
        _one_at_a_time(storage.engine)
    return storage


def _one_at_a_time(engine: sqlalchemy.Engine) -> None:
    """Make SQLite lock where Optuna reads a row to change it: it has no SELECT ... FOR UPDATE.

    Without, two processes can take the same trial from the queue.
    """

    @sqlalchemy.event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def lock(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()


def _check_same(study: optuna.Study, record: Mapping[str, Any]) -> None:
    """Refuse to go on with a study that asks something else."""
    now: dict[str, Any] = json.loads(json.dumps(record))
    then = study.user_attrs
    for name, value in now.items():
        if name not in then:
            study.set_user_attr(name, value)
        elif then[name] != value:
            raise UserError(
                f"Study {study.study_name!r} was begun with {name}={then[name]}, not {value}; "
                "go on with that, or choose another --out or --study."
            )


@contextmanager
def _quietly() -> Iterator[None]:
    """Without Optuna's log and its warnings that something may change in a later version."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            warnings.filterwarnings("ignore", "Heartbeat of storage")
            yield
    finally:
        optuna.logging.set_verbosity(level)
