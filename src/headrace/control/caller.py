"""The caller of a service: owner name and permissions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ANONYMOUS = "anonymous"
"""Owner of all objects: a node has one token and does not distinguish users."""


class Role(StrEnum):
    """Permissions of a caller."""

    ADMIN = "admin"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. Only `Node.identify` creates callers."""

    owner: str
    """Owner of the objects that the caller creates. A caller sees only objects of this owner."""
    roles: frozenset[Role] = frozenset({Role.USER})
