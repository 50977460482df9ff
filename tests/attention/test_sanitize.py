"""The kernels read and write nothing outside, and do nothing undefined."""

from __future__ import annotations

import os
import platform
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "m3dphormer" / "attention" / "csrc"
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
@pytest.mark.parametrize(
    ("main", "source"),
    [
        ("sanitize.cpp", "kernels.cpp"),
        ("sanitize_maps.cpp", "structure.cpp"),
        ("sanitize_sparse.cpp", "structure.cpp"),
        ("sanitize_mix.cpp", "structure.cpp"),
    ],
)
def test_the_kernels_pass_under_address_and_undefined_behaviour_sanitizers(
    main: str, source: str, tmp_path: Path
) -> None:
    built = runpy.run_path(str(ROOT / "setup.py"), run_name="settings")
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    flags = [
        *(flag for flag in built["COMMON"] if flag != "-O3"),
        *("-O0", "-g", "-fopenmp", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
        *["-DM3D_X86"] * x86,
    ]
    objects = []

    def compile_one(source: Path, name: str, *more: str) -> None:
        target = tmp_path / f"{name}.o"
        command = [COMPILER, *flags, *more, f"-I{SOURCE}", "-c", str(source), "-o", str(target)]
        subprocess.run(command, check=True)
        objects.append(str(target))

    for name in ("walk", "dispatch", "fork"):
        compile_one(SOURCE / f"{name}.cpp", name)
    for name, options in built["SETS"].items():
        if x86 or name == "baseline":
            named = (f"-DM3D_KERNELS=m3d_kernels_{name}", f"-DM3D_SET={name}")
            for each in {source, "kernels.cpp"}:  # dispatch.cpp needs the kernels
                compile_one(SOURCE / each, f"{Path(each).stem}-{name}", *options, *named)
    compile_one(Path(__file__).with_name(main), "main")
    program = tmp_path / "sanitize"
    subprocess.run([COMPILER, *flags, *objects, "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout == "clean\n"
    assert done.stderr == ""
