"""A training that is stopped and restored ends bit for bit where it would have ended."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphs import random_graph
from m3dphormer.errors import UserNotice
from m3dphormer.models import create_model
from m3dphormer.training.checkpoint import Checkpoint
from m3dphormer.training.loop import Fit, Keeper, State, fit
from m3dphormer.training.settings import TrainConfig

EPOCHS = 14


class StopAt(Checkpoint):
    """Writes after every epoch, and is interrupted after one of them."""

    def __init__(self, folder: Path, epoch: int) -> None:
        super().__init__(folder, every=0.0)
        self.epoch = epoch

    def keep(self, state: State) -> None:
        super().keep(state)
        if len(state.history) == self.epoch:
            raise KeyboardInterrupt


def train(keeper: Keeper | None = None, norm: str = "rms", average: float = 0.0) -> Fit:
    data = random_graph()
    torch.manual_seed(0)
    model = create_model("m3dphormer", data, hidden=8, clusters=4, norm=norm)
    config = TrainConfig(lr=0.01, epochs=EPOCHS, schedule="cosine", average=average)
    return fit(model, model.prepare(data), data, config, "accuracy", keeper=keeper)


def assert_same(one: Fit, other: Fit) -> None:
    assert one.best.epoch == other.best.epoch
    for left, right in zip(one.history, other.history, strict=True):
        assert (left.loss, left.train, left.val) == (right.loss, right.train, right.val)
    assert one.weights.keys() == other.weights.keys()
    assert all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)
    assert (one.probabilities == other.probabilities).all()


@pytest.mark.parametrize("norm", ["rms", "batch"])
@pytest.mark.parametrize("epoch", [1, 6, EPOCHS])
def test_a_restored_training_ends_on_the_same_bits(tmp_path: Path, epoch: int, norm: str) -> None:
    stopped = train(StopAt(tmp_path, epoch), norm)
    assert isinstance(stopped.failure, KeyboardInterrupt)
    assert len(stopped.history) == epoch
    assert_same(train(Checkpoint(tmp_path, every=1e9), norm), train(norm=norm))


@pytest.mark.parametrize("epoch", [1, 6])
def test_so_does_one_of_averaged_weights(tmp_path: Path, epoch: int) -> None:
    train(StopAt(tmp_path, epoch), "batch", average=0.8)
    whole = train(norm="batch", average=0.8)
    assert_same(train(Checkpoint(tmp_path, every=1e9), "batch", average=0.8), whole)


def test_training_time_goes_on_where_it_stood(tmp_path: Path) -> None:
    stopped = train(StopAt(tmp_path, 6))
    checkpoint = Checkpoint(tmp_path, every=1e9)
    seconds = [epoch.seconds for epoch in train(checkpoint).history]
    assert checkpoint.seconds == seconds[5] == stopped.history[5].seconds
    assert seconds == sorted(seconds)


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "truncated":
        content = content[: len(content) // 2]
    elif how == "empty":
        content.clear()
    else:
        content[-100] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "empty", "one bit"])
def test_a_damaged_checkpoint_costs_one_line_and_one_interval(tmp_path: Path, how: str) -> None:
    keeper = StopAt(tmp_path, 6)
    train(keeper)
    damage(keeper.newest, how)
    checkpoint = StopAt(tmp_path, 6)
    with pytest.warns(UserNotice, match=r"checkpoint\.safetensors is damaged") as told:
        again = train(checkpoint)
    assert len(told) == 1
    assert checkpoint.seconds == again.history[4].seconds
    assert_same(train(Checkpoint(tmp_path, every=1e9)), train())


def test_with_both_damaged_the_training_begins_anew(tmp_path: Path) -> None:
    keeper = StopAt(tmp_path, 6)
    train(keeper)
    damage(keeper.newest, "truncated")
    damage(keeper.previous, "truncated")
    with pytest.warns(UserNotice, match="is damaged") as told:
        assert_same(train(Checkpoint(tmp_path, every=1e9)), train())
    assert len(told) == 2


def test_a_write_that_fails_leaves_both_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = StopAt(tmp_path, 6)
    train(keeper)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {keeper.newest.name, keeper.previous.name}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        train(StopAt(tmp_path, 9))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_checkpoints_are_written_no_more_often_than_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    monkeypatch.setattr(Checkpoint, "write", lambda self, state: written.append(len(state.history)))
    train(Checkpoint(tmp_path, every=1e9))
    assert written == []
    train(Checkpoint(tmp_path, every=0.0))
    assert written == list(range(1, EPOCHS + 1))
