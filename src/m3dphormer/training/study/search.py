"""One process's part in a study: begin trials while they are needed, and see each through."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from m3dphormer.errors import UserError
from m3dphormer.training.space import Space
from m3dphormer.training.study.database import alive, give_up_dead, open_database, quietly
from m3dphormer.training.study.sampler import Untried
from m3dphormer.training.study.trials import (
    ALIVE,
    REASON,
    SETTINGS,
    Ended,
    died,
    subject,
    waiting,
    waiting_again,
)

POLL = 1.0  # seconds between looks at what the other processes are doing
DEATHS = 3  # after so many, settings are left alone: it may be they that kill
COUNTED = (TrialState.COMPLETE, TrialState.PRUNED)


class Pruned(Exception):
    """A trial that need not go on, and why."""


Report = Callable[[int, float], None]  # takes a step and the score so far; may raise Pruned
Objective = Callable[[Mapping[str, Any], Report], float]  # settings to a score; may raise Pruned


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
    """A study in a database, begun here or by another process.

    Args:
        url: The database.
        name: The study's name in it.
        record: What the study was or is begun with; another record is refused.
    """

    def __init__(self, url: str, name: str, question: Question, record: Mapping[str, Any]) -> None:
        self.name, self.question = name, question
        self._storage = open_database(url)
        with quietly():
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
        with quietly():
            while time.monotonic() < until:
                give_up_dead(self._study)
                every = self._study.get_trials(deepcopy=False)
                counted = sum(trial.state in COUNTED for trial in every)
                running = sum(trial.state == TrialState.RUNNING for trial in every)
                if counted >= trials:
                    return
                if counted + running < trials and self._queue(every):
                    self._one(objective, trials, watch)
                elif running:
                    time.sleep(POLL)  # others are at it; should one die, its trial is ours
                else:
                    return

    def _queue(self, every: list[FrozenTrial]) -> bool:
        """Queue what must be tried and is not being; False: nothing is left to try."""
        there = {subject(trial): trial.state for trial in every if trial.state != TrialState.FAIL}
        deaths = Counter(subject(trial) for trial in every if died(trial))
        wanted = [waiting(name, settings) for name, settings in self.question.starts.items()]
        wanted += [waiting_again(trial) for trial in every if self._lost(trial)]
        for trial in wanted:
            about = subject(trial)
            if about not in there and deaths[about] < DEATHS:
                there[about] = TrialState.WAITING
                self._study.add_trial(trial)
        sampler = Untried(self.question.space, self.question.allowed, seed=len(every))
        self._study.sampler = sampler
        return TrialState.WAITING in there.values() or sampler.any_left(every)

    def _lost(self, trial: FrozenTrial) -> bool:
        """Whether a trial failed that had settings to try."""
        known = SETTINGS in trial.user_attrs or trial.params.keys() == self.question.space.keys()
        return trial.state == TrialState.FAIL and known

    def _one(self, objective: Objective, trials: int, watch: Callable[[Ended], None]) -> None:
        """Begin a trial and see it through, unless another process was first."""
        trial = self._study.ask()
        # Given up for dead by another process, a trial cannot be changed, and is tried again there.
        with suppress(UpdateFinishedTrialError), alive(self._storage, trial):
            queued = SETTINGS in trial.user_attrs or bool(trial.params)
            settings = self._settings(trial)
            if self._superfluous(trial, trials) or self._repeated(trial, queued):
                self._fail(trial)
                return
            trial.set_user_attr(SETTINGS, settings)
            try:
                value = objective(settings, lambda step, score: _report(trial, step, score))
                ended = self._tell(trial, TrialState.COMPLETE, value)
            except Pruned as why:
                trial.set_user_attr(REASON, str(why))
                ended = self._tell(trial, TrialState.PRUNED)
            except BaseException:
                self._fail(trial)
                raise
            if ended.state in COUNTED:
                watch(Ended.of(ended))

    def _settings(self, trial: Trial) -> dict[str, Any]:
        """What a trial tries: noted with it, or drawn."""
        given: dict[str, Any] | None = trial.user_attrs.get(SETTINGS)
        if given is not None:
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
        own = subject(self._study.get_trials(deepcopy=False)[trial.number])
        same = [one for one in self._others(trial) if subject(one) == own]
        return any(one.number < trial.number or not queued for one in same)

    def _others(self, trial: Trial) -> list[FrozenTrial]:
        """The trials beside this one that did not fail."""
        every = self._study.get_trials(deepcopy=False)
        return [o for o in every if o.number != trial.number and o.state != TrialState.FAIL]

    def _fail(self, trial: Trial) -> None:
        trial.set_user_attr(ALIVE, False)
        self._tell(trial, TrialState.FAIL)

    def _tell(self, trial: Trial, state: TrialState, value: float | None = None) -> FrozenTrial:
        return self._study.tell(trial, value, state=state, skip_if_finished=True)


def _report(trial: Trial, step: int, score: float) -> None:
    trial.report(score, step)
    if trial.should_prune():
        raise Pruned("below the median")


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
