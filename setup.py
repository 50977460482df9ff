"""Builds the attention kernels; where that fails, the package installs without them."""

from __future__ import annotations

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path("src/m3dphormer/attention/csrc")
# No -ffast-math: it would switch on flush-to-zero for the whole process that loads the library.
COMMON = [
    *("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-Wno-psabi"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
]
SETS = {
    "baseline": ["-DM3D_BYTES=16"],
    "avx2": ["-DM3D_BYTES=32", "-mavx2", "-mfma"],
    "avx512": [
        *("-DM3D_BYTES=64", "-mfma", "-mprefer-vector-width=512"),
        *("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw"),
    ],
}


class BuildKernels(build_ext):
    """One object an instruction set, linked to neither torch nor Python nor an OpenMP runtime.

    OpenMP's few symbols are left open: at load they find the runtime that torch brought along.
    """

    def build_extension(self, ext: Extension) -> None:
        for openmp in (["-fopenmp"], []):
            try:
                return self.build_with(ext, COMMON + openmp)
            except Exception as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        print(f"m3dphormer: fused attention kernels not built, torch code will serve ({reason}).")

    def build_with(self, ext: Extension, flags: list[str]) -> None:
        x86 = platform.machine().lower() in ("x86_64", "amd64")
        flags = flags + ["-DM3D_X86"] * x86
        work = [(SOURCE / f"{name}.cpp", "common", flags) for name in ("walk", "dispatch", "fork")]
        for name, options in SETS.items():
            if x86 or name == "baseline":
                named = [f"-DM3D_KERNELS=m3d_kernels_{name}", f"-DM3D_SET={name}", *options]
                for source in ("kernels.cpp", "structure.cpp"):
                    work.append((SOURCE / source, name, flags + named))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(lambda one: self.compile(*one), work))
        objects = [name for names in made for name in names]
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object(objects, str(target), target_lang="c++")

    def compile(self, source: Path, name: str, flags: list[str]) -> list[str]:
        folder = str(Path(self.build_temp) / name)
        return self.compiler.compile([str(source)], folder, extra_postargs=flags)


if __name__ == "__main__":  # tests read the flags above
    setup(
        ext_modules=[Extension("m3dphormer.attention._kernels", [], optional=True)],
        cmdclass={"build_ext": BuildKernels},
    )
