"""Runs that are killed, run out of disk, are interrupted or diverge."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from torch_geometric.data import Data

import m3dphormer as m3d
from m3dphormer import UserError
from m3dphormer.errors import UserNotice
from m3dphormer.models.m3dphormer import M3Dphormer
from m3dphormer.training.checkpoint import Checkpoint
from m3dphormer.training.loop import State

SETTINGS = {"hidden": 8, "heads": 1, "layers": 1, "epochs": 25, "lr": 0.01}
ASKED: dict[str, Any] = {"seeds": 2, "settings": SETTINGS}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def start(out: Path, **asked: Any) -> BaseProcess:
    """A run in a process of its own, forked from one that has imported the package already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["m3dphormer.training"])
    process = context.Process(
        target=m3d.train, args=("hierarchy",), kwargs={**ASKED, "out": str(out), **asked}
    )
    process.start()
    return process


def finish(process: BaseProcess) -> None:
    process.join(120)
    assert process.exitcode == 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A run that nothing happened to, and the seconds it takes."""
    folder = tmp_path_factory.mktemp("whole")
    finish(start(folder / "first"))
    began = time.perf_counter()
    finish(start(folder / "run"))
    return folder / "run", time.perf_counter() - began


def told(run: Path) -> dict[str, Any]:
    """All that a run says, apart from what was measured and its own name."""
    content: dict[str, Any] = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if path.suffix == ".json":
            content[name] = _lasting(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            content[name] = [_lasting(json.loads(line)) for line in path.open()]
        elif path.suffix == ".npz":
            content[name] = {key: array.tobytes() for key, array in np.load(path).items()}
        elif path.is_file():
            content[name] = path.read_bytes()
    return content


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        measured = ("seconds", "seed_seconds", "peak_bytes", "run")
        return {key: _lasting(one) for key, one in value.items() if key not in measured}
    return value


def assert_same(run: Path, whole: Path) -> None:
    one, other = told(run), told(whole)
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []


def kill_and_resume(run: Path, seconds: float, chance: random.Random) -> None:
    """Two kills at any moment, then to the end."""
    every = chance.choice([0.0, 0.05])
    for resume in (False, True):
        process = start(run, resume=resume, checkpoint=every)
        time.sleep(chance.uniform(0, seconds))
        process.kill()
        process.join()
    finish(start(run, resume=True, checkpoint=every))


@pytest.mark.parametrize("trial", range(2))
def test_a_killed_run_ends_on_the_same_bits(
    tmp_path: Path, whole: tuple[Path, float], trial: int
) -> None:
    kill_and_resume(tmp_path / "run", whole[1], random.Random(trial))
    assert_same(tmp_path / "run", whole[0])


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(2, 22))
def test_a_killed_run_ends_on_the_same_bits_at_any_moment(
    tmp_path: Path, whole: tuple[Path, float], trial: int
) -> None:
    kill_and_resume(tmp_path / "run", whole[1], random.Random(trial))
    assert_same(tmp_path / "run", whole[0])


def interrupt(monkeypatch: pytest.MonkeyPatch, epoch: int, out: str | None = None) -> str:
    """Begin a run, press Ctrl-C after an epoch, and give back what was said."""
    keep = Checkpoint.keep

    def pressed(self: Checkpoint, state: State) -> None:
        keep(self, state)
        if len(state.history) == epoch:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", pressed)
        with pytest.raises(KeyboardInterrupt) as raised:
            m3d.train("hierarchy", **ASKED, out=out, checkpoint=0.0)
    return str(raised.value)


def begin_without_end(out: Path) -> BaseProcess:
    process = start(out, settings={**SETTINGS, "epochs": 10**6}, checkpoint=0.0)
    while not (out / "seed0" / "checkpoint.safetensors").is_file():
        assert process.is_alive()
        time.sleep(0.05)
    return process


def test_a_run_that_is_still_trained_is_not_gone_on_with() -> None:
    run = Path("run")
    process = begin_without_end(run)
    with pytest.raises(UserError) as raised:
        m3d.train("hierarchy", out="run", resume=True)
    assert str(raised.value) == (
        "run is being trained by another process; wait for it or choose another --out."
    )
    assert process.is_alive()
    process.kill()
    process.join()
    assert m3d.train("hierarchy", out="run", resume=True, minutes=0.001).scores  # the lock is gone
    assert not list(run.rglob("*lock*"))


def test_of_two_runs_that_begin_in_one_folder_the_second_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = begin_without_end(Path("run"))
    os.kill(process.pid or 0, signal.SIGSTOP)
    before = told(Path("run"))
    monkeypatch.setattr("m3dphormer.training.run._new_folder", lambda out, name: Path("run"))
    with pytest.raises(UserError, match="run is being trained by another process"):
        m3d.train("hierarchy", **ASKED, out="run")
    assert told(Path("run")) == before
    process.kill()
    process.join()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "tmpfs", str(folder)]
    if mount is None or subprocess.run([mount, *options], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def resize(disk: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def test_a_full_disk_is_one_line_and_costs_one_interval(
    disk: Path, whole: tuple[Path, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, 1, out="other")
    size = Path("other/seed0/checkpoint.safetensors").stat().st_size
    resize(disk, int(2.7 * size))  # room for two checkpoints and the rest, not for three
    run = disk / "run"
    words = f"No space left on device; mend that, then go on with --resume --out {run}"
    with pytest.raises(UserError, match=words) as raised:
        m3d.train("hierarchy", **ASKED, out=str(run), checkpoint=0.0)
    assert "\n" not in str(raised.value)
    left = {path.name for path in (run / "seed0").iterdir()}
    assert left == {"checkpoint.safetensors", "checkpoint.previous.safetensors", "metrics.jsonl"}
    resize(disk, 100 * size)
    m3d.train("hierarchy", out=str(run), resume=True)
    assert_same(run, whole[0])


def test_ctrl_c_keeps_the_best_model_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, whole: tuple[Path, float]
) -> None:
    line = interrupt(monkeypatch, 9)
    run = Path("runs/hierarchy-m3dphormer-1")
    clf = m3d.NodeClassifier.load(run / "seed0")
    best = clf.memory_.best
    assert line == (
        f"interrupted after epoch 9; the weights of epoch {best.epoch}, the best, are in "
        f"{run}/seed0; go on with --resume --out {run}"
    )
    assert clf.score(m3d.load("hierarchy"), "val") == best.val
    assert m3d.train("hierarchy", resume=True).run == str(run)
    assert_same(run, whole[0])


def test_a_truncated_checkpoint_is_one_line_and_costs_one_interval(
    monkeypatch: pytest.MonkeyPatch, whole: tuple[Path, float]
) -> None:
    interrupt(monkeypatch, 9, out="run")
    newest = Path("run/seed0/checkpoint.safetensors")
    newest.write_bytes(newest.read_bytes()[:5000])
    with pytest.warns(UserNotice, match=f"{newest} is damaged"):
        m3d.train("hierarchy", out="run", resume=True)
    assert_same(Path("run"), whole[0])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"settings": {"epochs": 30}}, "run was begun with epochs=25, not 30"),
        ({"settings": {"preset": "paper"}}, "run was begun with preset=official, not paper"),
        ({"seeds": 3}, "run was begun with seeds=2, not 3"),
        ({"metric": "f1"}, "run was begun with metric=accuracy, not f1"),
        ({"dataset": "digits"}, "run was begun with graph_hash="),
    ],
)
def test_a_run_goes_on_with_its_own_settings_only(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], words: str
) -> None:
    interrupt(monkeypatch, 1, out="run")
    before = told(Path("run"))
    with pytest.raises(UserError, match=words):
        m3d.train(**{"dataset": "hierarchy", "out": "run", "resume": True, **asked})
    assert told(Path("run")) == before


def test_the_newest_unfinished_run_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        interrupt(monkeypatch, 1)
    m3d.train("hierarchy", seeds=1, settings={**SETTINGS, "epochs": 1})
    names = [m3d.train("hierarchy", resume=True).run for _ in range(2)]
    assert names == ["runs/hierarchy-m3dphormer-2", "runs/hierarchy-m3dphormer-1"]


def test_a_finished_run_is_told_again_and_nothing_is_done() -> None:
    first = m3d.train("hierarchy", **ASKED)
    with pytest.warns(UserNotice, match="runs/hierarchy-m3dphormer-1 is finished"):
        assert m3d.train("hierarchy", resume=True) == first


def test_with_nothing_to_go_on_with_a_run_begins() -> None:
    with pytest.warns(UserNotice, match="No run of m3dphormer on hierarchy to go on with"):
        summary = m3d.train("hierarchy", **ASKED, resume=True)
    assert summary.run == "runs/hierarchy-m3dphormer-1"


def test_a_folder_that_is_no_run_is_not_gone_on_with() -> None:
    Path("other").mkdir()
    Path("other/config.json").write_text('{"hidden_size": 768}')
    with pytest.raises(UserError, match="other is not the folder of a run"):
        m3d.train("hierarchy", out="other", resume=True)
    assert [path.name for path in Path("other").iterdir()] == ["config.json"]


def test_another_number_of_threads_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, 1, out="run")
    record = json.loads(Path("run/config.json").read_text())
    Path("run/config.json").write_text(json.dumps({**record, "threads": 99}))
    with pytest.warns(UserNotice, match="run was begun with threads=99, not"):
        m3d.train("hierarchy", out="run", resume=True)


def test_a_loss_that_is_not_a_number_keeps_the_best_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    losses = iter(range(1, 100))
    loss = M3Dphormer.loss

    def breaks(self: M3Dphormer, graph: Any, data: Data) -> Tensor:
        return loss(self, graph, data) * (math.nan if next(losses) == 8 else 1)

    monkeypatch.setattr(M3Dphormer, "loss", breaks)
    with pytest.raises(UserError) as raised:
        m3d.train("hierarchy", **ASKED, out="run")
    clf = m3d.NodeClassifier.load("run/seed0")
    best = clf.memory_.best
    assert str(raised.value) == (
        "The loss became nan in epoch 8; take a smaller lr than 0.01; "
        f"the weights of epoch {best.epoch}, the best, are in run/seed0"
    )
    assert best.epoch < 8
    assert clf.score(m3d.load("hierarchy"), "val") == best.val
    assert not Path("run/seed1").exists()


def test_minutes_are_shared_among_the_seeds() -> None:
    settings = {**SETTINGS, "epochs": 100_000}
    summary = m3d.train("hierarchy", seeds=2, settings=settings, minutes=4 / 60, out="run")
    assert len(summary.scores) == 2
    for seed, share in enumerate((2.0, 4.0)):
        lines = Path(f"run/seed{seed}/metrics.jsonl").read_text().splitlines()
        before_last = json.loads(lines[-2])["seconds"]
        assert before_last < share  # it had time for one more


def test_minutes_must_be_more_than_none() -> None:
    with pytest.raises(
        UserError, match=r"'minutes' parameter must be a float in the range \(0, inf\)"
    ):
        m3d.train("hierarchy", minutes=-1)


@pytest.mark.parametrize("seconds", [-3, math.nan, math.inf, "5"])
def test_seconds_between_checkpoints_are_a_finite_number(seconds: Any) -> None:
    with pytest.raises(UserError, match=r"'checkpoint' parameter must be .* range \[0, inf\)"):
        m3d.train("hierarchy", checkpoint=seconds)


def test_patience_counts_epochs_without_a_better_validation_score() -> None:
    settings = {**SETTINGS, "epochs": 500, "patience": 7}
    summary = m3d.train("hierarchy", seeds=1, settings=settings, out="run")
    lines = Path("run/seed0/metrics.jsonl").read_text().splitlines()
    assert len(lines) == summary.epochs[0] + 7 < 500
