"""One csv file as a table in which only an empty cell is missing and lines keep their numbers."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Sequence

import pandas as pd

from m3dphormer.errors import UserError
from m3dphormer.graph.own.tables import Table


def read_csv(data: bytes, title: str, text: Sequence[str] | None = None) -> Table:
    """Read a csv file with a header line.

    Args:
        data: Its content, in UTF-8.
        title: What an error line begins with.
        text: Columns to leave as text, such as ids (``007`` is not 7); None: all of them. The
            others become numbers where every cell is one.
    """
    _refuse_binary(data, title)
    header = _parse(data, title, nrows=0).columns
    kept = set(header) if text is None else set(header) & set(text)
    frame = _parse(
        data,
        title,
        dtype=dict.fromkeys(kept, str),
        na_values={name: [""] if name in kept else ["", "nan", "NaN"] for name in header},
    )
    frame = frame.set_axis(frame.index + 2)[frame.notna().any(axis=1).to_numpy()]
    if frame.iloc[:, -1].isna().any():  # a short line leaves its last cells empty
        _refuse_unequal(data, title)
    return Table(frame, title, unit="line")


def _refuse_binary(data: bytes, title: str) -> None:
    if not data.strip():
        raise UserError(f"{title} is empty; it needs a header line.")
    try:
        binary = "\0" in data.decode("utf-8-sig")
    except UnicodeDecodeError:
        binary = True
    if binary:
        raise UserError(f"{title} is not UTF-8 text; save it as a UTF-8 csv file.")


def _parse(data: bytes, title: str, **options: object) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(  # type: ignore[call-overload,no-any-return]
                io.BytesIO(data),
                encoding="utf-8-sig",
                index_col=False,
                keep_default_na=False,
                low_memory=False,
                skip_blank_lines=False,
                **options,
            )
    except (ValueError, pd.errors.ParserWarning) as error:
        _refuse_unequal(data, title)
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise UserError(f"{title} is not a csv table: {reason}.") from error


def _refuse_unequal(data: bytes, title: str) -> None:
    lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
    try:
        width = len(next(lines))
        for cells in lines:
            if cells and len(cells) != width:
                raise UserError(
                    f"{title} line {lines.line_num}: rows of unequal length: {len(cells)} cells "
                    f"where the header has {width}."
                )
    except csv.Error as error:
        raise UserError(f"{title} line {lines.line_num}: {error}.") from error
