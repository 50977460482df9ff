from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from m3dphormer.errors import UserError
from m3dphormer.experiments.ablations import EXPERIMENTS, VARIANTS, run_ablations, suite, summarise
from m3dphormer.experiments.ablations.paper import PAPER
from m3dphormer.training.settings import resolve

TINY = {"hidden": 8, "layers": 1, "epochs": 2}


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs two variants on a small graph; ``trained`` are the cells that it trained."""
    trained: list[str] = []

    def call(**asked: Any) -> pd.DataFrame:
        trained.clear()
        given: dict[str, Any] = {"variants": ["full", "local GCN"], "seeds": 2, "settings": TINY}
        return run_ablations(
            ["hierarchy"],
            tmp_path / "results" / "ablations.csv",
            work=tmp_path / "work",
            watch=lambda line: trained.append(line.partition(":")[0]),
            **{**given, **asked},
        )

    call.trained = trained  # type: ignore[attr-defined]
    return call


def test_every_variant_is_a_setting_of_the_model_and_only_full_changes_nothing() -> None:
    recipes: tuple[dict[str, Any], ...] = ({}, {"local_scores": "gcn"})
    for name, settings in VARIANTS.items():
        both = [
            [resolve("m3dphormer", {**r, **more})[0] for more in ({}, settings)] for r in recipes
        ]
        assert all(full == varied for full, varied in both) == (name == "full")
    assert {name for one in EXPERIMENTS.values() for name in one.variants} == set(VARIANTS)


def test_the_papers_numbers_are_those_that_it_prints() -> None:
    assert PAPER["full"]["minesweeper"] == (98.27, 0.20)
    assert PAPER["w/o local"]["ogbn-arxiv"] == (67.24, 0.23)
    assert PAPER["w/o bi-level"]["chameleon"] == (44.39, 4.44)
    assert PAPER["+ FFN"]["chameleon"] == (44.22, 2.81)
    assert set(PAPER) <= set(VARIANTS)


def test_a_cell_is_trained_once_for_its_settings(run: Any) -> None:
    first = run()
    assert run.trained == ["hierarchy, full", "hierarchy, local GCN"]
    assert first[["variant", "seed"]].to_numpy().tolist() == [
        ["full", 0],
        ["full", 1],
        ["local GCN", 0],
        ["local GCN", 1],
    ]
    assert {"command", "commit", "machine", "settings"} <= set(first)
    pd.testing.assert_frame_equal(run(), first)
    assert run.trained == []
    assert len(run(seeds=1)) == 2  # its seeds are a part of what is there
    assert run.trained == []
    run(settings={**TINY, "epochs": 1})
    assert run.trained == ["hierarchy, full", "hierarchy, local GCN"]


def test_a_training_that_was_ended_goes_on(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(variants=["full"])
    append = suite._append
    monkeypatch.setattr(suite, "_append", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(variants=["w/o global"])
    monkeypatch.setattr(suite, "_append", append)
    with pytest.warns(UserWarning, match="is finished; nothing is left to do"):
        later = run(variants=["w/o global"])
    assert len(later) == len(whole) == 2


def test_an_unknown_variant_is_told_before_anything_is_trained(run: Any) -> None:
    with pytest.raises(UserError, match=r"Unknown variant 'local GNC'. Did you mean local GCN"):
        run(variants=["full", "local GNC"])
    assert run.trained == []


@pytest.mark.parametrize("content", [b"x,y\n1,2\n", b'a,b\n1,"open', b"\xff\xfe"])
def test_another_file_in_its_place_is_told_before_anything_is_trained(
    run: Any, tmp_path: Path, content: bytes
) -> None:
    target = tmp_path / "results" / "ablations.csv"
    target.parent.mkdir()
    target.write_bytes(content)
    with pytest.raises(UserError, match=r"ablations\.csv .*; choose another --out\."):
        run()
    assert run.trained == []
    assert target.read_bytes() == content


def test_what_is_named_twice_counts_once(run: Any) -> None:
    assert len(run(variants=["full", "full"])) == 2


def test_the_command_of_a_row_gives_that_row(run: Any) -> None:
    command = run(variants=["full"])["command"].iloc[0]
    assert command.endswith("--seeds 2 --set hidden=8 --set layers=1 --set epochs=2")


def test_no_seeds_are_told_though_the_csv_has_rows(run: Any) -> None:
    run(variants=["full"], seeds=1)
    with pytest.raises(UserError, match=r"'seeds' parameter must be an int of at least 1. Got 0."):
        run(variants=["full"], seeds=0)


def test_the_papers_order_is_asked_for_where_its_gap_is_clear() -> None:
    means = {"full": 90.0, "w/o local": 80.0, "w/o global": 91.0, "+ FFN": 90.5, "local GCN": 1.0}
    rows = pd.DataFrame(
        [
            {"dataset": "cora", "variant": name, "seed": seed, "test": mean + seed}
            for name, mean in means.items()
            for seed in (0, 2)
        ]
    )
    table = summarise(rows).set_index("variant")
    assert table.loc["full", "ours"] == "91.00 ± 1.41"
    assert table.loc["full", "paper"] == "88.48 ± 1.94"
    assert table.loc["w/o local", "less than full"] == "+10.00"
    assert table.loc["w/o local", "paper's"] == "+5.64"
    assert table["order"].to_dict() == {
        "full": "",
        "w/o local": "holds",
        "w/o global": "open in the paper",  # 0.53 against 2.03
        "+ FFN": "does not hold",  # 1.98 against 1.94
        "local GCN": "",
    }
