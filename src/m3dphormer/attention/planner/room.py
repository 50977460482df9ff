"""How much memory a run may take on this machine."""

from __future__ import annotations

import os
from pathlib import Path

SYSTEM = Path("/")


def available_memory(system: Path = SYSTEM) -> int:
    """Bytes that are free for a new tensor: what the system says, or a cgroup's rest if less.

    Args:
        system: Where ``proc`` and ``sys`` are.
    """
    free = [_meminfo(system), *(_cgroup_rest(folder) for folder in _cgroups(system))]
    known = [number for number in free if number is not None]
    return min(known) if known else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _meminfo(system: Path) -> int | None:
    for line in _text(system / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _cgroups(system: Path) -> list[Path]:
    """The folders that may limit this process: its own group and those above it."""
    base = system / "sys/fs/cgroup"
    found = [base, base / "memory"]
    for line in _text(system / "proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds == "" or "memory" in kinds.split(","):
            own = (base / "memory" if kinds else base) / path.lstrip("/")
            found += [own, *(parent for parent in own.parents if base in parent.parents)]
    return found


def _cgroup_rest(folder: Path) -> int | None:
    for limit, used, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, now = _text(folder / limit).strip(), _text(folder / used).strip()
        if most.isdigit() and now.isdigit():
            pairs = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
            return max(0, int(most) - int(now) + int(pairs.get(cache, 0)))
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
