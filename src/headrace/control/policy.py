"""The caller of a request, and the one place that decides whether a caller may act on an object.

A caller acts on the objects of its own and of its groups. What belongs to others, or to the whole
store, needs a role. The scope of a token limits what its roles allow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar

from headrace.config.auth import Role
from headrace.errors import AmbiguousName, HeadraceError, NotPermitted
from headrace.model.identity import GROUP_PREFIX, Scope


@dataclass(frozen=True)
class Caller:
    """An authenticated caller. Only the authenticator creates callers, and a run of a job."""

    owner: str
    """User who calls, or the group for which its token acts."""
    groups: frozenset[str] = frozenset()
    """Groups of which the caller is a member, as owners."""
    roles: frozenset[Role] = frozenset({Role.USER})
    scope: Scope = Scope.ADMIN
    """What the credentials allow at most."""
    token_id: str | None = None
    """The token that the caller has sent, unless it is that of the node."""
    user: str | None = None
    """User who acts for a group; None: the owner acts."""
    address: str | None = field(default=None, compare=False)
    """IP address from which the caller has sent its request, for the audit."""
    account: str | None = None
    """The owner as `source:name`, if it is a user who acts itself."""

    @property
    def actor(self) -> str:
        """User whom events name."""
        return self.user or self.owner

    @cached_property
    def owners(self) -> frozenset[str]:
        """Owners on whose objects the caller may act; none without a role that has objects."""
        return frozenset() if self.roles.isdisjoint(CREATORS) else self.groups | {self.owner}


class Action(StrEnum):
    """What a caller does with an object."""

    READ = "read"  # its state, times, errors and log
    READ_CONTENT = "read the content of"  # its SQL and its rows
    CHANGE = "change"


class Shared(Enum):
    """What belongs to the whole store, and not to one owner."""

    NODES = auto()
    METRICS = auto()
    HISTORY = auto()
    USERS = auto()
    AUDIT = auto()


class Owned(Protocol):
    """An object with an owner."""

    @property
    def owner(self) -> str | None:
        """Id of the owner; None: the object has no owner."""


class OwnedBy(NamedTuple):
    """An object of which only the owner is known."""

    owner: str | None


T = TypeVar("T", bound=Owned)


HIDDEN_TEXT = "-- only its owner, auditors and administrators may read this"
"""Shown in the place of SQL, a manifest or a diff to those who may not read the content."""
_SHOWN = 200
"""Largest number of characters of a name in a message."""
_SHOWN_GROUPS = 20
_EVERYBODY = frozenset(Role)
_ADMINS = frozenset({Role.ADMIN})
CREATORS = frozenset({Role.ADMIN, Role.USER})
"""Roles that have objects."""
_OPERATORS = frozenset({Role.ADMIN, Role.OPERATOR})
_WATCHERS = frozenset({Role.ADMIN, Role.OPERATOR, Role.AUDITOR})
_READERS = frozenset({Role.ADMIN, Role.AUDITOR})

_SHARED_ROLES: dict[tuple[Action, Shared], frozenset[Role]] = {
    (Action.READ, Shared.NODES): _EVERYBODY,
    (Action.CHANGE, Shared.NODES): _OPERATORS,
    (Action.READ, Shared.METRICS): _WATCHERS,
    (Action.READ, Shared.HISTORY): _ADMINS,
    (Action.CHANGE, Shared.HISTORY): _ADMINS,
    (Action.READ, Shared.USERS): _WATCHERS,
    (Action.READ, Shared.AUDIT): _READERS,
    (Action.CHANGE, Shared.USERS): _ADMINS,
}
"""The roles of which a caller needs one. An action that is not here is never allowed."""

_OTHERS_ROLES: dict[Action, frozenset[Role]] = {
    Action.READ: _WATCHERS,
    Action.READ_CONTENT: _READERS,
    Action.CHANGE: _ADMINS,
}
"""The roles of which a caller needs one to act on the objects of others."""

_SCOPES: dict[Action, Scope] = {
    Action.READ: Scope.READ,
    Action.READ_CONTENT: Scope.READ,
    Action.CHANGE: Scope.SUBMIT,
}
"""The scope that an action needs at least. Changes that need a role need ADMIN."""


def may(caller: Caller, action: Action, target: Owned | Shared) -> bool:
    """Return whether a caller may act on an object."""
    if isinstance(target, Shared):
        needed = Scope.ADMIN if (action, target) in _ADMINISTRATION else _SCOPES[action]
        roles = _SHARED_ROLES.get((action, target), frozenset())
        return caller.scope.includes(needed) and not caller.roles.isdisjoint(roles)
    if target.owner in caller.owners:
        return caller.scope.includes(_SCOPES[action])
    needed = Scope.ADMIN if action is Action.CHANGE else _SCOPES[action]
    roles = _OTHERS_ROLES.get(action, frozenset())
    return caller.scope.includes(needed) and not caller.roles.isdisjoint(roles)


_ADMINISTRATION = frozenset(
    {
        (Action.CHANGE, Shared.NODES),
        (Action.CHANGE, Shared.HISTORY),
        (Action.CHANGE, Shared.USERS),
    }
)


def require(caller: Caller, action: Action, target: Shared) -> None:
    """Raise NotPermitted if a caller does not have the role or the scope for an action."""
    if may(caller, action, target):
        return
    roles = _SHARED_ROLES.get((action, target), frozenset())
    has_role = not caller.roles.isdisjoint(roles)
    needed = "a token with a wider scope" if has_role else _describe_roles(roles)
    raise NotPermitted(f"{caller.owner} may not {action} {target.name.lower()}: it needs {needed}.")


def check(caller: Caller, action: Action, target: T | None, missing: HeadraceError) -> T:
    """Return an object on which a caller may act.

    Raises:
        HeadraceError: `missing`, if there is no such object or the caller may not read it. The
            caller learns nothing about it.
        NotPermitted: The caller may read the object, and do no more.
    """
    if target is None or not may(caller, Action.READ, target):
        missing.is_foreign = target is not None
        raise missing
    if not may(caller, action, target):
        is_own = target.owner in caller.owners
        needed = "a token with a wider scope" if is_own else "a role that its owner does not need"
        raise NotPermitted(f"{caller.owner} may not {action} this object: it needs {needed}.")
    return target


def _describe_roles(roles: frozenset[Role]) -> str:
    return f"one of the roles {', '.join(sorted(roles))}" if roles else "a role that nothing gives"


def require_creator(caller: Caller, kind: str) -> None:
    """Raise NotPermitted if a caller may not create objects of its own, of whatever kind.

    Args:
        kind: What the caller wants to create, in the plural.
    """
    if caller.roles.isdisjoint(CREATORS):
        needed = _describe_roles(CREATORS)
    elif not caller.scope.includes(Scope.SUBMIT):
        needed = "a token with a wider scope"
    else:
        return
    raise NotPermitted(f"{caller.owner} may not create {kind}: it needs {needed}.")


def resolve_owner(caller: Caller, owner: str | None) -> str:
    """Return the id of the owner for whom a caller wants to act, by default the caller itself.

    Args:
        owner: The caller, or `group:NAME` for a group of the caller.

    Raises:
        NotPermitted: The caller is neither.
    """
    if owner is None or owner == caller.owner:
        return caller.owner
    if owner in caller.groups:
        return owner
    name = owner.removeprefix(GROUP_PREFIX)
    for group in caller.groups:
        # All groups of a caller come from one source.
        if name != owner and group.split(":", 2)[2] == name:
            return group
    own = ", ".join(sorted(caller.groups)[:_SHOWN_GROUPS])
    raise NotPermitted(
        f"{caller.owner} may not act for {owner[:_SHOWN]!r}.",
        hint=f"Your groups: {own}." if own else "You are in no group.",
    )


def visible_owners(caller: Caller, action: Action = Action.READ) -> frozenset[str] | None:
    """Return whose objects a caller may list: its own and its groups', or None for all."""
    return None if may(caller, action, OwnedBy(None)) else caller.owners


def listed_owners(caller: Caller, *, all_owners: bool) -> frozenset[str] | None:
    """Return whose objects a list has: by default those of the caller and its groups.

    Args:
        all_owners: Whether the list also has the objects of others that the caller may read.
    """
    return visible_owners(caller) if all_owners else caller.owners


def find_named(
    caller: Caller, own: T | None, find_of: Callable[[Collection[str]], Sequence[T]]
) -> T | None:
    """Return the object that a caller means by a name: its own, or else one of its groups.

    Objects of others have the same names. Who may act on them names them by id.

    Args:
        own: The object of the caller itself that has the name.
        find_of: Returns the objects of these owners that have the name.

    Returns:
        None if neither the caller nor its groups have an object with this name.

    Raises:
        AmbiguousName: Several groups have an object with this name.
    """
    if own is not None or not caller.groups:
        return own
    found = find_of(caller.groups)
    if len(found) > 1:
        names = ", ".join(sorted(str(each.owner) for each in found))
        raise AmbiguousName(
            f"Several of your groups have an object with this name: {names}.", hint="Use its id."
        )
    return found[0] if found else None


def act_for(caller: Caller, owner: str) -> Caller:
    """Return the caller as which a statement acts: its owner, with what the caller may do.

    In the session of a group, a name means an object of the group.
    """
    return replace(
        caller,
        owner=owner,
        user=caller.actor,
        account=None,
        groups=frozenset(),
        roles=frozenset({Role.USER}),
    )
