"""What a statement waits for, in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class WaitCode(StrEnum):
    """Kinds of reasons for which a statement waits."""

    SESSION_START = "session_start"  # the driver of its session is not up yet
    SESSION_RECOVERY = "session_recovery"  # the driver of its session was lost
    SESSION_CLOSING = "session_closing"  # the session ends, and cancels it
    QUEUE = "queue"  # behind other waiting statements of its session
    EXCLUSIVE = "exclusive"  # it, or the statement before it, runs alone in its session
    PARALLELISM = "parallelism"  # its session runs as many statements as it may
    LIMIT = "limit"  # its user, or all users, run as many statements as they may
    DRIVER = "driver"  # nothing is before it: the driver takes it next
    WRITE_LOCK = "write_lock"  # another statement writes to its table
    TRANSACTION = "transaction"  # another statement publishes a table of the same name or location


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFor:
    """Why a statement waits."""

    code: WaitCode
    text: str
    """The reason as a sentence."""
    since: datetime | None
    """Since when this reason holds, as far as it is known."""
    statement_id: str | None = None
    """The statement that it waits for, if it is a single one."""
