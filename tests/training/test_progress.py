from __future__ import annotations

import io

import pytest
from rich.console import Console

from m3dphormer.training import progress as module
from m3dphormer.training.loop import Epoch


def epoch(number: int) -> Epoch:
    return Epoch(number, loss=1.25, train=0.9, val=0.875, test=0.8, seconds=0.1)


def run(capsys: pytest.CaptureFixture[str], enabled: bool = True) -> str:
    with module.progress("cora, seed 0", 4, enabled) as watch:
        for number in range(1, 4):
            watch(epoch(number))
    return capsys.readouterr().err


def test_it_is_quiet_when_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys) == ""


def test_on_a_terminal_it_shows_loss_validation_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(module, "Console", lambda **options: terminal)
    run(capsys)
    for shown in ("cora, seed 0", "3/4", "loss 1.250", "val 87.50 %", "0:00:0"):
        assert shown in screen.getvalue()


def test_it_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True)
    monkeypatch.setattr(module, "Console", lambda **options: terminal)
    run(capsys, enabled=False)
    assert screen.getvalue() == ""
