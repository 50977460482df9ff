"""The kernels come with pip; without a compiler the package comes without them, and says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

from graphs import random_graph
from m3dphormer import attend
from m3dphormer.attention import native
from m3dphormer.errors import UserNotice
from m3dphormer.masks import l2

ROOT = Path(__file__).parents[2]


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(native, "EXTENSION_SUFFIXES", [".nowhere"])
    native.library.cache_clear()
    yield
    native.library.cache_clear()


@pytest.mark.usefixtures("missing")
def test_without_the_library_torch_serves_and_one_notice_says_so() -> None:
    mask = l2(random_graph(20))
    q, k, v = (torch.randn(20, 2, 4) for _ in range(3))
    with pytest.warns(UserNotice, match="Install a C\\+\\+ compiler") as told:
        first, second = (attend(q, k, v, mask) for _ in range(2))
    assert len([w for w in told if w.category is UserNotice]) == 1
    torch.testing.assert_close(first, attend(q, k, v, mask, scheme="reference"))
    assert torch.equal(first, second)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the sources without anything built."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    (folder / "README.md").write_text("m3dphormer\n")
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    return folder


def pip_wheel(checkout: Path, source: Path, **environment: str) -> tuple[list[str], str]:
    """Names in the wheel that pip makes of a source, and what it printed."""
    pip = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--wheel-dir", str(checkout / "wheels"), str(source)],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (checkout / "wheels").glob("*.whl")
    return zipfile.ZipFile(wheel).namelist(), done.stdout + done.stderr


def kernels(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith("m3dphormer/attention/_kernels")]


@pytest.mark.slow
def test_a_broken_compiler_never_breaks_the_install(checkout: Path) -> None:
    names, printed = pip_wheel(checkout, checkout, CC="false", CXX="false")
    assert kernels(names) == []
    assert "m3dphormer/attention/fused.py" in names
    assert printed.count("fused attention kernels not built") == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_an_sdist_builds_the_kernels(checkout: Path) -> None:
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist"], cwd=checkout, check=True, capture_output=True
    )
    (archive,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        assert any(name.endswith("csrc/kernels.cpp") for name in packed.getnames())
    names, _ = pip_wheel(checkout, archive)
    assert len(kernels(names)) == 1
