"""A PyG ``Data`` saved with ``torch.save``, read without running anything the file asks for."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from m3dphormer.errors import UserError

ALLOWED = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]


def read_pt(path: Path) -> Data:
    """Load a ``Data`` with ``weights_only=True`` and PyG's storage classes as the only globals."""
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(ALLOWED):
            warnings.simplefilter("ignore")  # about pickle protocols; what fails is told below
            data = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(data, Data):
            data.keys()  # a Data of PyG 1 fails here
            return data
    except Exception as error:  # a damaged file can fail in any way the unpickler can
        wanted = _wanted_global(error, path)
        if wanted:
            raise UserError(
                f"{path} wants to import {wanted}, which a PyG Data never needs; nothing of it "
                "was run. Save plain tensors, lists and text only."
            ) from error
        raise UserError(
            f"{path} is truncated or not a PyG Data; save one with torch.save(data, path)."
        ) from error
    raise UserError(
        f"{path} holds a {type(data).__name__}, not a PyG Data; "
        "save one with torch.save(data, path)."
    )


def _wanted_global(error: Exception, path: Path) -> str | None:
    """The name that torch's message holds, or that a plain pickle asks for first."""
    told = re.search(r"GLOBAL (\S+)", str(error))
    if told:
        return told[1]
    try:
        with path.open("rb") as file:
            _NoGlobals(file).load()
    except _Wanted as wanted:
        return str(wanted)
    except Exception:  # not a pickle
        return None
    return None


class _Wanted(Exception):
    """A pickle asked for a global of this name."""


class _NoGlobals(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise _Wanted(f"{module}.{name}")
