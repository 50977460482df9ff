"""The forecast of whole runs, and the refusal of what cannot fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from m3dphormer import UserError, load, train
from m3dphormer.attention import SCHEMES
from m3dphormer.attention.planner import Rates, peak
from m3dphormer.models import Model, create_model
from m3dphormer.training import plan as make_plan
from m3dphormer.training.forecast import check_fits
from m3dphormer.training.settings import resolve

TINY = {"epochs": 1, "hidden": 8, "layers": 1}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _fixed_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = Rates(gemm=1e10, project=1e10, attend=1e9, scatter=1e9, warm=1e9, fresh=1e9, call=1e-5)
    monkeypatch.setattr("m3dphormer.training.forecast.machine_rates", lambda: rates)


def with_memory(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr("m3dphormer.training.forecast.available_memory", lambda: int(free))


def test_every_scheme_has_a_forecast_and_dense_ones_take_the_most() -> None:
    found = make_plan("hierarchy")
    assert list(found.schemes) == list(SCHEMES)
    peaks = {name: one.peak_bytes for name, one in found.schemes.items()}
    assert peaks["fused"] < min(peaks["sparse"], peaks["dual"])
    assert max(peaks["sparse"], peaks["dual"]) < peaks["dense"] < peaks["reference"]
    assert all(one.seconds_per_epoch > 0 for one in found.schemes.values())
    assert {region.mask.partition("(")[0] for region in found.regions} == {"l2", "c4", "g3"}


def test_more_layers_and_wider_states_take_more() -> None:
    small, deep, wide = (
        make_plan("hierarchy", settings=settings).schemes
        for settings in ({}, {"layers": 6}, {"hidden": 256})
    )
    for scheme in SCHEMES:
        for larger in (deep, wide):
            assert larger[scheme].peak_bytes > small[scheme].peak_bytes
            assert larger[scheme].seconds_per_epoch > small[scheme].seconds_per_epoch


def test_the_papers_dense_transformer_comes_out_of_the_plan() -> None:
    at = {
        layers: make_plan("hierarchy", settings={"layers": layers, "heads": 2}) for layers in (2, 4)
    }
    nodes, said = load("hierarchy").num_nodes, at[2].dense_transformer_bytes
    assert round(said * (19_717 / nodes) ** 2 / 1e9) == 21  # on as many nodes as PubMed's
    assert at[4].dense_transformer_bytes > said


def test_planning_leaves_the_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    make_plan("hierarchy")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_run_that_cannot_fit_is_refused_and_a_scheme_that_fits_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peaks = {name: one.peak_bytes for name, one in make_plan("hierarchy").schemes.items()}
    with_memory(monkeypatch, (peaks["sparse"] + peaks["dense"]) / 2)
    config, _ = resolve("m3dphormer", {"scheme": "dense"})
    with pytest.raises(UserError, match=r"scheme dense would need .* --set scheme=fused, or --f"):
        check_fits("m3dphormer", config, load("hierarchy"))


def test_where_no_scheme_fits_a_width_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    at = {w: make_plan("hierarchy", settings={"hidden": w}).schemes["fused"] for w in (128, 256)}
    with_memory(monkeypatch, (at[128].peak_bytes + at[256].peak_bytes) / 2)
    config, _ = resolve("m3dphormer", {"hidden": 256})
    with pytest.raises(UserError, match=r"Take --set hidden=128 --set scheme=fused, or --force"):
        check_fits("m3dphormer", config, load("hierarchy"))


def test_where_nothing_fits_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 1000)
    with pytest.raises(UserError, match="Take a smaller graph or a larger machine, or --force"):
        train("hierarchy", seeds=1, settings=TINY)
    assert not Path("runs").exists()


def test_force_starts_the_run_anyway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_memory(monkeypatch, 1000)
    summary = train("hierarchy", seeds=1, settings=TINY, out=str(tmp_path / "run"), force=True)
    assert summary.scores


def test_a_model_without_a_forecast_is_refused_only_where_its_weights_cannot_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("m3dphormer.models.m3dphormer.M3Dphormer.works", Model.works)
    config, data = resolve("m3dphormer", {})[0], load("hierarchy")
    weights = sum(weight.nbytes for weight in create_model("m3dphormer", data).parameters())
    with_memory(monkeypatch, 4 * weights)
    check_fits("m3dphormer", config, data)
    with_memory(monkeypatch, 4 * weights - 1)
    with pytest.raises(UserError, match=r"would need .* hidden=32"):
        check_fits("m3dphormer", config, data)
    assert make_plan("hierarchy").schemes == {}


def test_what_cannot_fit_is_refused_without_being_built() -> None:
    config, _ = resolve("sgformer", {"hidden": 1_000_000})
    with pytest.raises(UserError, match=r"sgformer on hierarchy would need [0-9.]+ GB of memory"):
        check_fits("sgformer", config, load("hierarchy"))
    forecasts = make_plan("hierarchy", settings={"hidden": 1_000_000}).schemes.values()
    assert not any(forecast.fits for forecast in forecasts)


def test_memory_that_is_used_up_in_training_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_room(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 1 bytes.")

    monkeypatch.setattr("m3dphormer.models.mlp.MLP.forward", no_room)
    with pytest.raises(UserError, match="does not fit into memory"):
        train("hierarchy", model="mlp", seeds=1, settings=TINY)


def test_recomputed_layers_bound_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load("hierarchy")
    model = create_model("m3dphormer", data, layers=8)
    graph = model.prepare(data)

    def needed() -> float:
        works = model.works(graph, data, "fused")
        assert works is not None
        return peak(works)

    kept = needed()
    monkeypatch.setattr("m3dphormer.attention.structure.recompute.KEPT_BYTES", 0.0)
    assert needed() < kept / 2
