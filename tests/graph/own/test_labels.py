"""Labels of any kind become class numbers that do not depend on row order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph.own.labels import class_numbers, given_numbers


def series(*values: object) -> pd.Series:
    return pd.Series(values, dtype=object)


@pytest.mark.parametrize(
    ("values", "names", "numbers"),
    [
        (series("10", "9", "2"), ["2", "9", "10"], [2, 1, 0]),
        (series("10", "9", "b"), ["10", "9", "b"], [0, 1, 2]),
        (series(3, 1, 3), ["1", "3"], [1, 0, 1]),
        (series(1.0, np.nan, 0.0), ["0", "1"], [1, -1, 0]),
        (series("a", None, "", "b"), ["a", "b"], [0, -1, -1, 1]),
        (series("NA", "None", "NA"), ["NA", "None"], [0, 1, 0]),
        (series(True, False), ["False", "True"], [1, 0]),
        (series(1, "1", b"1", "2"), ["1", "2"], [0, 0, 0, 1]),
        (series(None, None), [], [-1, -1]),
        (series("-1", "1", "-1"), ["-1", "1"], [0, 1, 0]),
        (series("-2", "-1", "0", "1"), ["-2", "-1", "0", "1"], [0, 1, 2, 3]),
        (series("-1", "0", "cat"), ["-1", "0", "cat"], [0, 1, 2]),
    ],
)
def test_classes_are_numbered_in_the_order_of_their_names(
    values: pd.Series, names: list[str], numbers: list[int]
) -> None:
    y, found = class_numbers("mine", values)
    assert (found, y.tolist(), y.dtype) == (names, numbers, np.int64)


@pytest.mark.parametrize(
    "values",
    [
        series("2", "-1", "0", "-1", "1", None),
        series(2, -1, 0, -1, 1, None),
        series(2.0, -1.0, 0.0, "-1", 1.0, np.nan),
    ],
)
def test_minus_one_beside_class_numbers_is_unlabelled_and_told(values: pd.Series) -> None:
    with pytest.warns(UserNotice, match=r"^mine: label -1 \(nodes: 2\) is taken as unlabelled"):
        y, names = class_numbers("mine", values)
    assert (names, y.tolist()) == (["0", "1", "2"], [2, -1, 0, -1, 1, -1])


@given(st.lists(st.sampled_from(["a", "b", "7", "10", None]), min_size=1))
def test_row_order_does_not_matter(values: list[str | None]) -> None:
    order = np.random.RandomState(len(values)).permutation(len(values))
    y, names = class_numbers("mine", series(*values))
    shuffled, same = class_numbers("mine", series(*(values[i] for i in order)))
    assert same == names
    assert np.array_equal(shuffled, y[order])


def test_a_broken_number_is_no_label() -> None:
    with pytest.raises(UserError, match=r"^mine: label 0\.5 is neither a class number nor a name"):
        class_numbers("mine", series(0.0, 0.5))


def test_a_list_is_no_label() -> None:
    with pytest.raises(UserError, match=r"^mine: a label must be one number or text"):
        class_numbers("mine", series(["a"], ["b", "c"]))


def test_numbers_are_positions_in_given_names_and_text_is_a_name() -> None:
    names = ["dog", "cat", "bird"]
    assert given_numbers("mine", series(1, None, 0), names).tolist() == [1, -1, 0]
    assert given_numbers("mine", series("bird", "", "dog"), names).tolist() == [2, -1, 0]


@pytest.mark.parametrize("label", [3, -2, "fish"])
def test_a_label_outside_the_given_names_is_refused(label: object) -> None:
    with pytest.raises(UserError, match=f"^mine: label '{label}' is not one of the 3 label names"):
        given_numbers("mine", series(0, label), ["dog", "cat", "bird"])
