"""What is said when the memory is used up in training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from m3dphormer.errors import UserError

NO_ROOM = "can't allocate memory"  # torch says it in a plain RuntimeError on a CPU


@contextmanager
def telling_of_no_room(what: str) -> Iterator[None]:
    """Say in one line that the memory is used up; what forecasts did not see coming."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        no_room = isinstance(error, MemoryError | torch.OutOfMemoryError) or NO_ROOM in str(error)
        if not no_room:
            raise
        raise UserError(
            f"{what} does not fit into memory. Take a smaller --set hidden, fewer layers or a "
            "larger machine."
        ) from None
