"""TPE that proposes only what is allowed and was not tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial

from m3dphormer.training.space import Space, combinations
from m3dphormer.training.study.trials import text

FIRST_RANDOM = 8  # trials before TPE has enough to go by
DRAWS = 20  # of TPE, to find a combination that was not tried


class Untried(optuna.samplers.TPESampler):
    """Draws all settings together; at random while trials are few, or TPE only repeats itself.

    Args:
        space: The values to try for each setting.
        allowed: Whether the configs take a combination.
    """

    def __init__(
        self, space: Space, allowed: Callable[[Mapping[str, Any]], bool], seed: int
    ) -> None:
        super().__init__(
            n_startup_trials=FIRST_RANDOM, multivariate=True, constant_liar=True, seed=seed
        )
        self.space, self.allowed, self.seed = space, allowed, seed
        self.only = {name: values[0] for name, values in space.items() if len(values) == 1}

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {n: CategoricalDistribution(v) for n, v in self.space.items() if n not in self.only}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        tried = _tried(study.get_trials(deepcopy=False))
        for _ in range(DRAWS):
            drawn = super().sample_relative(study, trial, search_space)
            if drawn and self._is_new({**self.only, **drawn}, tried):
                return drawn
        return next(self._new(tried), {})

    def any_left(self, trials: Iterable[FrozenTrial]) -> bool:
        """Whether a combination is allowed that none of these tried."""
        return next(self._new(_tried(trials)), None) is not None

    def _new(self, tried: set[str]) -> Iterator[dict[str, Any]]:
        every = combinations(self.space, self.seed)
        return (drawn for drawn in every if self._is_new(drawn, tried))

    def _is_new(self, drawn: Mapping[str, Any], tried: set[str]) -> bool:
        return text(drawn) not in tried and self.allowed(drawn)


def _tried(trials: Iterable[FrozenTrial]) -> set[str]:
    """Combinations that were drawn; a failed one comes back by the queue."""
    return {text(trial.params) for trial in trials}
