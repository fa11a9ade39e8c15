"""The caller of a service: who asks, and what the caller may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ANONYMOUS = "anonymous"
"""Owner of everything while a node has no users of its own."""


class Role(StrEnum):
    """Permissions of a caller."""

    ADMIN = "admin"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. Only authentication creates one."""

    owner: str
    """Owner of what the caller creates. A caller sees only what this owner owns."""
    roles: frozenset[Role] = frozenset({Role.USER})
