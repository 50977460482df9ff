"""Who the rows of a mask are: real nodes, then cluster, class and plain virtual nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from m3dphormer.errors import UserError

Role = Literal["nodes", "clusters", "classes", "virtual"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class Layout:
    """How many rows each role has; the roles always follow each other in this order."""

    nodes: int
    clusters: int = 0
    classes: int = 0
    virtual: int = 0

    @property
    def total(self) -> int:
        """T, the number of rows of every tensor that meets the mask."""
        return sum(self.size(role) for role in ROLES)

    def size(self, role: Role) -> int:
        """Rows of one role."""
        return int(getattr(self, role))

    def start(self, role: Role) -> int:
        """First row of a role."""
        return sum(self.size(before) for before in ROLES[: ROLES.index(role)])

    def rows(self, role: Role) -> slice:
        """The rows of a role, as a slice of a [T, ...] tensor."""
        start = self.start(role)
        return slice(start, start + self.size(role))

    def role_of(self, row: int) -> tuple[Role, int]:
        """Whose row it is: the role, and the number inside it."""
        role = next(role for role in ROLES if row < self.rows(role).stop)
        return role, row - self.start(role)

    def __or__(self, other: Layout) -> Layout:
        """The union of roles; a role that both have must have one size."""
        sizes = {}
        for role in ROLES:
            mine, theirs = self.size(role), other.size(role)
            if mine and theirs and mine != theirs:
                raise UserError(
                    f"Masks with {mine} and {theirs} {role} cannot be combined; build both on the "
                    "same graph and partition."
                )
            sizes[role] = mine or theirs
        return Layout(**sizes)
