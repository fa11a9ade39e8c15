"""Users, the groups that may own objects, and the tokens with which programs act for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from headrace.model.lifecycle import TokenState

BROWSER_TOKEN = "browser:"  # noqa: S105 - the begin of a name
"""Begin of the names of tokens of browsers. No user can give a token a name with a colon."""
SHORTEST_TOKEN = timedelta(minutes=1)
LONGEST_TOKEN = timedelta(days=366)
"""Times for which a token can be valid."""
GROUP_PREFIX = "group:"
"""Begin of the id of a group as an owner."""


def group_owner(source: str, name: str) -> str:
    """Return the id of a group as an owner. Groups of two sources are never the same."""
    return f"{GROUP_PREFIX}{source}:{name}"


class Scope(StrEnum):
    """What a token allows at most, whatever the roles of its owner are. Each includes the last."""

    READ = "read"  # to read
    SUBMIT = "submit"  # to create and change objects
    ADMIN = "admin"  # what needs a role

    def includes(self, other: Scope) -> bool:
        """Return whether this scope allows what another one allows."""
        order = list(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person or program that has signed in, identified by source and subject."""

    id: str
    """Owner of the user's objects. It never changes, and no other user ever gets it."""
    source: str
    """Where the user comes from: `os`, the name of a directory, or the URL of an OIDC issuer."""
    subject: str
    """Identifier of the user in the source. It never changes there."""
    name: str
    """Name in the source, for people."""
    groups: frozenset[str]
    """Names of the user's groups in the source, at the last sign-in."""
    created_at: datetime
    seen_at: datetime
    disabled_at: datetime | None = None
    """Since when the user may not sign in; None: the user may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A token with which a program acts for its owner."""

    id: str
    owner: str
    """User or group that owns what the token creates."""
    name: str
    scope: Scope
    state: TokenState
    created_by: str
    """User who has created the token."""
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None = None
    ended_at: datetime | None = None
    """When it was revoked; None: it was not."""
