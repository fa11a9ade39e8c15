"""The caller of a service: its name as an owner, and its roles. See policy.py."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ANONYMOUS = "anonymous"
"""Owner of all objects: a node has one token and does not distinguish users."""


class Role(StrEnum):
    """Roles of a caller: a user has objects, an administrator manages those of the store."""

    ADMIN = "admin"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. Only `Node.identify` creates callers."""

    owner: str
    """Owner of the objects that the caller creates. The policy lets a caller act on
    objects of this owner."""
    roles: frozenset[Role] = frozenset({Role.USER})
