from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from m3dphormer.graph import load
from m3dphormer.training.compare.paired import corrected_test, holm
from m3dphormer.training.compare.verdict import Comparison, comparison_table, verdict

TESTS = {
    "a": [90.0, 80.0, 85.0],
    "b": [91.0, 83.0, 86.0],
    "c": [70.0, 80.0, 75.0],
    "above": [92.5, 82.5, 87.5],
    "equal": [90.0, 80.0, 85.0],
    "sure": [80.0, 70.0, 75.001],
}
VALIDATION = {"a": 88.0, "b": 87.0, "c": 60.0, "above": 87.0, "equal": 87.0, "sure": 60.0}


def rows(model: str, seeds: int) -> list[dict[str, Any]]:
    return [
        {
            "seed": seed,
            "test": TESTS[model][seed],
            "validation": VALIDATION[model],
            "seconds": 10.0,
            "seconds_per_epoch": [0.3, 0.1, 0.2][seed],
            "parameters": 1000,
            "peak_mb": [30.0, None, 20.0][seed],
            "recipe": "",
        }
        for seed in range(seeds)
    ]


def found(seeds: int = 3, models: Sequence[str] = "abc") -> Comparison:
    data = load("hierarchy")
    return verdict(data, "accuracy", {name: rows(name, seeds) for name in models}, "folder")


def test_validation_chooses_whom_the_others_are_compared_with_and_test_orders() -> None:
    told = found()
    assert told.best == "a"
    assert [one.model for one in told.models] == ["b", "a", "c"]


def test_differences_are_paired_by_split_with_interval_and_holms_p() -> None:
    data = load("hierarchy")
    ratio = int(data.test_mask.sum()) / int(data.train_mask.sum())
    b, c = corrected_test([1.0, 3.0, 1.0], ratio), corrected_test([-20.0, 0.0, -10.0], ratio)
    told = {one.model: one for one in found().models}
    assert told["b"].difference == pytest.approx(5 / 3)
    assert told["b"].interval == pytest.approx((b.low, b.high))
    assert [told["b"].p, told["c"].p] == pytest.approx(holm([b.p, c.p]))
    best = told["a"]
    assert (best.difference, best.interval, best.p) == (None, None, None)


def test_scores_ranks_and_costs_are_summed_up() -> None:
    told = {one.model: one for one in found().models}
    assert told["a"].mean == pytest.approx(85)
    assert told["a"].std == pytest.approx(5)
    assert [told[m].rank for m in "abc"] == pytest.approx([(2 + 2.5 + 2) / 3, 1, (3 + 2.5 + 3) / 3])
    one = told["a"]
    assert (one.seconds, one.seconds_per_epoch, one.peak_mb) == (30.0, 0.2, 30.0)


def test_a_single_seed_gives_differences_and_no_more() -> None:
    told = {one.model: one for one in found(seeds=1).models}
    assert told["b"].difference == pytest.approx(1)
    assert (told["b"].interval, told["b"].p, told["b"].std) == (None, None, None)
    assert comparison_table(found(seeds=1)).loc[0, "accuracy"] == "91.00"


@pytest.mark.parametrize(("model", "difference"), [("above", 2.5), ("equal", 0.0)])
@pytest.mark.parametrize("seeds", [2, 3])
def test_differences_without_spread_have_neither_interval_nor_p(
    model: str, difference: float, seeds: int
) -> None:
    comparison = found(seeds, ["a", "b", model])
    told = {one.model: one for one in comparison.models}
    one, b = told[model], told["b"]
    assert (one.difference, one.interval, one.p) == (difference, None, None)
    table = comparison_table(comparison).set_index("model")
    assert table.loc[model, ["95 % interval", "p (Holm)"]].tolist() == ["-", "-"]
    assert b.interval is not None


def test_a_test_that_says_nothing_is_still_one_of_the_family() -> None:
    alone, among = found(3, ["a", "sure"]), found(3, ["a", "sure", "equal"])
    (p,), (twice,) = ([one.p for one in told.models if one.p] for told in (alone, among))
    assert twice == pytest.approx(2 * p)


def test_a_small_p_is_not_printed_as_none() -> None:
    table = comparison_table(found(3, ["a", "sure"])).set_index("model")
    assert table.loc["sure", "p (Holm)"] == "<0.001"


def test_the_papers_number_stands_beside_ours() -> None:
    data = load("hierarchy")
    data.name = "cora"
    told = verdict(data, "accuracy", {"mowst": rows("a", 3)}, "folder")
    assert told.models[0].paper == (87.92, 1.17)
    assert told.models[0].z == pytest.approx((85 - 87.92) / 1.17)
    assert found().models[0].paper is None


def test_the_table_says_it_in_words() -> None:
    table = comparison_table(found())
    assert table["accuracy"].tolist() == ["86.67 ± 4.04", "85.00 ± 5.00", "75.00 ± 5.00"]
    assert table["to a"].tolist() == ["+1.67", "-", "-10.00"]
    assert table["peak MB"].tolist() == ["30", "30", "30"]
