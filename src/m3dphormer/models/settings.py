"""Settings by name: what a recipe, ``--set`` or a keyword may say, checked against a config.

A config field carries its rule in its metadata, so that the check and the words of the error
stand in one place: "The 'dropout' parameter must be a float in the range [0, 1). Got 1.5." Beside
it stand the values that a search tries.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

import numpy as np

from m3dphormer.errors import UserError, unknown

C = TypeVar("C")


@dataclass(frozen=True)
class Rule:
    """What a setting may be: words for the user, and the test."""

    words: str
    holds: Callable[[Any], bool]

    def check(self, name: str, value: Any) -> Any:
        """The parameter ``name`` in plain Python; a value that does not hold is refused."""
        value = plain(value)
        if not self.holds(value):
            shown = list(value) if isinstance(value, tuple) else value
            raise UserError(f"The {name!r} parameter must be {self.words}. Got {shown!r}.")
        return value


def plain(value: Any) -> Any:
    """A scalar of numpy, as grids and tables hand them in, as Python's own: what JSON can take."""
    if isinstance(value, list | tuple):
        return type(value)(plain(one) for one in value)
    return value.item() if isinstance(value, np.generic) else value


def plain_settings(settings: Mapping[str, object] | None) -> dict[str, Any]:
    """All settings in plain Python."""
    return {name: plain(value) for name, value in (settings or {}).items()}


def at_least(low: int) -> Rule:
    """An int from ``low`` up."""
    return Rule(f"an int of at least {low}", lambda v: _is_int(v) and v >= low)


def between(low: float, high: float) -> Rule:
    """A float in [low, high); a ``high`` of infinity leaves out that alone."""
    words = f"a float in the range [{low:g}, {high:g})"
    return Rule(words, lambda v: (_is_int(v) or isinstance(v, float)) and low <= v < high)


def positive() -> Rule:
    """A float in (0, inf)."""
    finite = between(0, math.inf)
    return Rule("a float in the range (0, inf)", lambda v: finite.holds(v) and v > 0)


def one_of(*choices: str) -> Rule:
    """One of a few words."""
    return Rule("one of " + ", ".join(choices), lambda v: v in choices)


def flag() -> Rule:
    """True or false."""
    return Rule("true or false", lambda v: isinstance(v, bool))


def either(first: Rule, second: Rule) -> Rule:
    """What satisfies one of two rules."""
    return Rule(f"{first.words} or {second.words}", lambda v: first.holds(v) or second.holds(v))


def nothing() -> Rule:
    """None: no such limit."""
    return Rule("None", lambda v: v is None)


def word(text: str) -> Rule:
    """Exactly this word."""
    return Rule(repr(text), lambda v: v == text)


def setting(default: Any, rule: Rule, *, search: tuple[Any, ...] = ()) -> Any:
    """A config field with a default, a rule, and the values ``tune`` tries (none: it stays)."""
    return dataclasses.field(default=default, metadata={"rule": rule, "search": search})


def setting_names(config_type: type[Any]) -> list[str]:
    """The names a config knows."""
    return [field.name for field in dataclasses.fields(config_type)]


def searched(config_type: type[Any]) -> dict[str, tuple[Any, ...]]:
    """The values a search tries, by setting."""
    fields = dataclasses.fields(config_type)
    return {
        field.name: field.metadata["search"] for field in fields if field.metadata.get("search")
    }


def make_config(config_type: type[C], settings: Mapping[str, object]) -> C:
    """Fill a config dataclass; an unknown name or a value out of range is a UserError.

    Where the config has ``PRESETS``, the setting ``preset`` chooses what the rest start from.
    """
    presets: Mapping[str, Mapping[str, object]] = getattr(config_type, "PRESETS", {})
    if presets:
        chosen = settings.get("preset", next(iter(presets)))
        if chosen not in presets:
            raise unknown("preset", chosen, presets)
        settings = {**presets[str(chosen)], **settings}
    fields = {field.name: field for field in dataclasses.fields(config_type)}  # type: ignore[arg-type]
    hints = get_type_hints(config_type)
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in fields:
            raise unknown("setting", name, fields)
        given: Any = plain(tuple(value) if isinstance(value, list) else value)
        rule: Rule | None = fields[name].metadata.get("rule")
        if rule is not None:
            rule.check(name, given)
        values[name] = float(given) if hints[name] is float else given
    return config_type(**values)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
