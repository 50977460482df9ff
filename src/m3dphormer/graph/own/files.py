"""The user's own graph on disk: a folder or zip of tables, an ``.npz``, or a ``.pt``."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pandas as pd
from torch_geometric.data import Data

from m3dphormer.errors import UserError
from m3dphormer.graph.own.csvfile import read_csv
from m3dphormer.graph.own.npz import read_npz
from m3dphormer.graph.own.pt import read_pt
from m3dphormer.graph.own.pyg import from_data
from m3dphormer.graph.own.tables import Table, table, tables_to_raw
from m3dphormer.graph.raw import RawGraph, finish

FORMS = (
    "a graph is a folder or .zip with nodes.csv and edges.csv (or both as .parquet), "
    "an .npz, or a PyG Data saved as .pt"
)


def load_path(path: str | os.PathLike[str], split: int = 0, *, labels: bool = True) -> Data:
    """Load the graph at ``path``; its name is that of the file or folder.

    Args:
        path: A folder or ``.zip`` with ``nodes.csv`` and ``edges.csv`` (or both as
            ``.parquet``), an ``.npz`` with the heterophilous-graphs keys, or a PyG ``Data``
            saved with ``torch.save`` as ``.pt``.
        split: Which of the given splits, or which drawn one.
        labels: False for a graph to predict on, whose labels may be missing and do not count.
    """
    place = Path(path)
    if not place.exists():
        raise UserError(f"{path} does not exist; {FORMS}.")
    try:
        if place.is_dir():
            return finish(_read_folder(place, labels), split)
        if place.suffix == ".zip":
            return finish(_read_zip(place, labels), split)
        if place.suffix == ".npz":
            raw = read_npz(place, f"file {path}", labels)
            return finish(replace(raw, need_labels=labels), split)
        if place.suffix in (".pt", ".pth"):
            data = read_pt(place)
            source = f"file {path}"
            return from_data(data, name=place.stem, source=source, split=split, labels=labels)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    raise UserError(f"{path} has no known form; {FORMS}.")


def _read_folder(path: Path, labels: bool) -> RawGraph:
    files = [file.name for file in path.iterdir() if file.is_file()]
    name = path.resolve().name
    return _read_tables(
        path, name, "folder", files, lambda file: (path / file).read_bytes(), labels
    )


def _read_zip(path: Path, labels: bool) -> RawGraph:
    """Read the tables at the root of the archive, or in one folder of it, without unpacking."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [PurePosixPath(name) for name in archive.namelist()]
            homes = {member.parent for member in members if member.stem == "nodes"}
            inside = homes.pop() if len(homes) == 1 else PurePosixPath()
            files = [member.name for member in members if member.parent == inside]
            return _read_tables(
                path,
                path.stem,
                "file",
                files,
                lambda file: archive.read(str(inside / file)),
                labels,
            )
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path} is truncated or not a readable .zip: {error}.") from error


def _read_tables(
    path: Path, name: str, kind: str, files: list[str], read: Callable[[str], bytes], labels: bool
) -> RawGraph:
    for suffix, parse in (("csv", _parse_csv), ("parquet", _parse_parquet)):
        pair = (f"nodes.{suffix}", f"edges.{suffix}")
        if set(pair) <= set(files):
            nodes, edges = (parse(read(file), f"{path}: {file}") for file in pair)
            source = f"{kind} {path} ({', '.join(pair)})"
            return tables_to_raw(name, nodes, edges, source, labels)
    found = ", ".join(sorted(files)[:10]) or "no files"
    raise UserError(f"{path} needs nodes.csv and edges.csv, or both as .parquet. Found {found}.")


def _parse_csv(data: bytes, title: str) -> Table:
    if title.endswith("nodes.csv"):
        return read_csv(data, title, text=("id", "label", "split"))
    return read_csv(data, title)


def _parse_parquet(data: bytes, title: str) -> Table:
    try:
        import pyarrow  # noqa: F401 - the engine pandas reads with
    except ImportError as error:
        raise UserError(
            f"{title} needs the 'parquet' extra: pip install 'm3dphormer[parquet]'."
        ) from error
    try:
        return table(pd.read_parquet(io.BytesIO(data), engine="pyarrow"), title)
    except (OSError, ValueError) as error:  # what pyarrow raises for a damaged file
        raise UserError(f"{title} is truncated or not a parquet file.") from error
