"""The caller of a request, and the one place that decides whether a caller may act on an object.

A caller acts on the objects of its own. What belongs to the whole store needs a role.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import NamedTuple, Protocol

from headrace.errors import Unauthorized

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


class Action(StrEnum):
    """What a caller does with an object."""

    READ = "read"
    CHANGE = "change"


class Shared(Enum):
    """What belongs to the whole store, and not to one owner."""

    STATEMENTS = auto()
    EVENTS = auto()
    NODES = auto()
    METRICS = auto()
    HISTORY = auto()


class Owned(Protocol):
    """An object with an owner."""

    @property
    def owner(self) -> str | None:
        """Name of the owner; None: the object has no owner."""


class OwnedBy(NamedTuple):
    """An object of which only the owner is known."""

    owner: str | None


class NotPermitted(Unauthorized):
    """The caller does not have the role that the request needs."""

    status = 403


_EVERYBODY = frozenset(Role)
_ADMINS = frozenset({Role.ADMIN})

_ROLES: dict[tuple[Action, Shared], frozenset[Role]] = {
    (Action.READ, Shared.STATEMENTS): _ADMINS,
    (Action.READ, Shared.EVENTS): _ADMINS,
    (Action.READ, Shared.NODES): _EVERYBODY,
    (Action.CHANGE, Shared.NODES): _ADMINS,
    (Action.READ, Shared.METRICS): _EVERYBODY,
    (Action.READ, Shared.HISTORY): _ADMINS,
    (Action.CHANGE, Shared.HISTORY): _ADMINS,
}
"""The roles of which a caller needs one. An action that is not here is never allowed.

To read STATEMENTS or EVENTS is to read those of all owners.
"""


def may(caller: Caller, action: Action, target: Owned | Shared) -> bool:
    """Return whether a caller may act on an object."""
    if isinstance(target, Shared):
        return not caller.roles.isdisjoint(_ROLES.get((action, target), frozenset()))
    return Role.USER in caller.roles and target.owner == caller.owner


def require(caller: Caller, action: Action, target: Shared) -> None:
    """Raise NotPermitted if a caller does not have the role for an action."""
    if not may(caller, action, target):
        raise NotPermitted(
            f"{caller.owner} may not {action} {target.name.lower()}: this needs another role."
        )


def require_creator(caller: Caller, kind: str) -> None:
    """Raise NotPermitted if a caller may not create objects of its own, of whatever kind.

    Args:
        kind: What the caller wants to create, in the plural.
    """
    if Role.USER not in caller.roles:
        raise NotPermitted(f"{caller.owner} may not create {kind}: this needs another role.")


def visible_owner(caller: Caller, kind: Shared) -> str | None:
    """Return whose objects a caller may list: its own name, or None for those of all owners."""
    return None if may(caller, Action.READ, kind) else caller.owner
