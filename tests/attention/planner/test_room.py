"""Memory that is left, from a made-up /proc and /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from m3dphormer.attention.planner import available_memory

MIB = 2**20


@pytest.fixture
def system(tmp_path: Path) -> Path:
    write(tmp_path / "proc/meminfo", f"MemTotal: 9 kB\nMemAvailable:   {1000 * 1024} kB\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def limit(folder: Path, most: str, used: int, cache: int) -> None:
    write(folder / "memory.max", f"{most}\n")
    write(folder / "memory.current", f"{used}\n")
    write(folder / "memory.stat", f"anon 5\ninactive_file {cache}\n")


def test_without_a_limit_it_is_what_the_system_says(system: Path) -> None:
    assert available_memory(system) == 1000 * MIB
    limit(system / "sys/fs/cgroup", "max", 0, 0)
    assert available_memory(system) == 1000 * MIB


def test_a_lower_limit_of_the_own_group_counts(system: Path) -> None:
    write(system / "proc/self/cgroup", "0::/jobs/mine\n")
    limit(system / "sys/fs/cgroup/jobs/mine", str(400 * MIB), 150 * MIB, 50 * MIB)
    assert available_memory(system) == 300 * MIB


def test_a_limit_above_the_own_group_counts(system: Path) -> None:
    write(system / "proc/self/cgroup", "0::/jobs/mine\n")
    limit(system / "sys/fs/cgroup/jobs", str(200 * MIB), 0, 0)
    assert available_memory(system) == 200 * MIB


def test_the_first_version_of_cgroups_counts_too(system: Path) -> None:
    write(system / "proc/self/cgroup", "4:memory:/mine\n0::/\n")
    folder = system / "sys/fs/cgroup/memory/mine"
    write(folder / "memory.limit_in_bytes", str(100 * MIB))
    write(folder / "memory.usage_in_bytes", str(40 * MIB))
    assert available_memory(system) == 60 * MIB


def test_this_machine_has_some() -> None:
    assert available_memory() > 0
