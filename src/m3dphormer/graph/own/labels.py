"""Labels of any kind become class numbers; the names come back in predictions."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from m3dphormer.errors import UserError, notice

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
UNLABELLED = "-1"


def class_numbers(where: str, values: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Number the classes in the order of their names, so that row order does not matter.

    Args:
        where: What an error line begins with.
        values: [N] labels; a missing or empty one is unlabelled, and so is -1 beside two or more
            classes that are all whole numbers from 0.

    Returns:
        [N] int64 class numbers, -1 for unlabelled, and one name a class: in numeric order where
        all names are whole numbers, else in text order.
    """
    codes, found = _distinct(where, values)
    names = [label_name(where, value) for value in found]
    known = sorted({name for name in names if name})
    if all(WHOLE_NUMBER.fullmatch(name) for name in known):
        known.sort(key=int)
        # Of -1 and 1 both are classes; any other negative number makes -1 one of them.
        if len(known) > 2 and known[0] == UNLABELLED and int(known[1]) >= 0:
            known.remove(UNLABELLED)
            nodes = int(np.isin(codes, [i for i, n in enumerate(names) if n == UNLABELLED]).sum())
            notice(
                f"{where}: label -1 (nodes: {nodes:,}) is taken as unlabelled beside the class "
                "numbers from 0; if it is a class, give it another name."
            )
    number = {name: i for i, name in enumerate(known)}
    # The last entry is what code -1, a missing value, points at.
    table = np.array([*(number.get(name, -1) for name in names), -1], dtype=np.int64)
    return np.take(table, codes), known


def given_numbers(where: str, values: pd.Series, label_names: Sequence[object]) -> np.ndarray:
    """Place labels in a given list of class names: numbers are positions in it, text is a name.

    Returns:
        [N] int64 class numbers, -1 for unlabelled.
    """
    names = [str(name) for name in label_names]
    by_name = {name: i for i, name in enumerate(names)} | {"": -1}
    by_position = {str(i): i for i in range(len(names))}
    codes, found = _distinct(where, values)
    numbers = []
    for value in found:
        label = label_name(where, value)
        number = (by_name if isinstance(value, str) else by_position).get(label)
        if number is None:
            raise UserError(
                f"{where}: label {label!r} is not one of the {len(names)} label names; "
                f"numbers go from 0 to {len(names) - 1}, -1 is unlabelled."
            )
        numbers.append(number)
    return np.take(np.array([*numbers, -1], dtype=np.int64), codes)


def label_name(where: str, value: object) -> str:
    """A label as text: 2.0, which is how a column with gaps holds 2, becomes '2'."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not value.is_integer():
            raise UserError(
                f"{where}: label {value} is neither a class number nor a name; "
                "write labels as whole numbers or text."
            )
        value = int(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _distinct(where: str, values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """[N] positions among the distinct values, -1 for a missing one, and those values."""
    try:
        codes, found = pd.factorize(values.astype(object))
    except TypeError as error:
        raise UserError(f"{where}: a label must be one number or text ({error}).") from error
    return codes, np.asarray(found, dtype=object)
