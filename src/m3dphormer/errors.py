"""What a user did or should know: one error type, one warning type, one form of words."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable


class UserError(Exception):
    """Something the user gave cannot be used. One line: the thing, then the way out."""


class UserNotice(UserWarning):
    """Something the user should know, though the work goes on. One line."""


def notice(message: str) -> None:
    """Tell the user once, in one line (the command prints it on stderr)."""
    warnings.warn(message, UserNotice, stacklevel=3)


def unknown(kind: str, name: object, choices: Iterable[str]) -> UserError:
    """``Unknown dataset 'coar'. Did you mean cora?`` or, with nothing near, the whole list."""
    known = sorted(choices)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    way_out = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(known)}."
    return UserError(f"Unknown {kind} {str(name)!r}. {way_out}")
