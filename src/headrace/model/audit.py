"""Records of the audit: who did, read, or was refused what."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class AuditAction(StrEnum):
    """What a record of the audit is about."""

    SIGN_IN_FAILED = "sign_in_failed"  # credentials that are missing or not valid
    REQUEST_DENIED = "request_denied"  # a request for which the caller has no right
    RESULT_READ = "result_read"  # rows of a statement
    TOKEN_CREATED = "token_created"  # noqa: S105 - an action
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 - an action
    USER_DISABLED = "user_disabled"
    USER_ENABLED = "user_enabled"
    NODE_DRAINED = "node_drained"
    NODE_CONFIRMED_GONE = "node_confirmed_gone"
    HISTORY_PURGED = "history_purged"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAuditRecord:
    """A record that the store does not have yet. It has no secret, no SQL and no row."""

    action: AuditAction
    actor: str | None = None
    """User who acted; None: it is not known."""
    token_id: str | None = None
    """Token with which the user acted."""
    address: str | None = None
    """IP address of the client, or of a proxy before the node."""
    target: str | None = None
    """Id of the object."""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord(NewAuditRecord):
    """A record as the store holds it."""

    id: str
    at: datetime
    """When the store has received it: for reads and refusals, up to a second after the action."""
    node_id: str
    """Node that has written it."""
