"""What is noted with a trial in the database, and what a trial is to the rest of the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optuna import create_trial
from optuna.trial import FrozenTrial, TrialState

START = "start"  # the name of settings that were given, not drawn
SETTINGS = "settings"  # all that the trial trains with, or shall
ALIVE = "alive"  # True from the first heartbeat; False where the process ended the trial in order
REASON = "reason"  # why it was pruned


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


def text(settings: Mapping[str, Any]) -> str:
    """The same for equal settings."""
    return json.dumps(settings, sort_keys=True)


def subject(trial: FrozenTrial) -> str:
    """What a trial tries: the combination it drew, else the settings noted with it."""
    return text(trial.params or trial.user_attrs.get(SETTINGS, {"number": trial.number}))


def died(trial: FrozenTrial) -> bool:
    """Whether the process of a trial came to an end that it did not see coming."""
    return trial.state == TrialState.FAIL and bool(trial.user_attrs.get(ALIVE))


def waiting(name: str, settings: Mapping[str, Any]) -> FrozenTrial:
    """A trial for the queue, of given settings."""
    return create_trial(
        state=TrialState.WAITING, user_attrs={START: name, SETTINGS: dict(settings)}
    )


def waiting_again(trial: FrozenTrial) -> FrozenTrial:
    """A trial for the queue, like one that failed."""
    return create_trial(
        state=TrialState.WAITING,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs={name: value for name, value in trial.user_attrs.items() if name != ALIVE},
    )
