"""Limits on the sessions and statements of one user, and of all users together."""

from __future__ import annotations

from headrace.config.settings import Settings
from headrace.control.context import NodeContext
from headrace.errors import QueueFull, TooManySessions
from headrace.store.database import Tx
from headrace.store.notifications import session_topic
from headrace.store.statements import limits
from headrace.store.statements.limits import Counted, Excess, Limit
from headrace.text.readable import describe_count


def check_sessions(tx: Tx, settings: Settings, owner: str) -> None:
    """Raise TooManySessions if the owner may not open another session.

    Call this before the transaction locks a session. Sessions that continue accepted work, such as
    those of jobs, count but are not refused.
    """
    chosen = settings.limits
    limit = Limit(
        counted=Counted.SESSIONS, total=chosen.sessions, per_user=chosen.sessions_per_user
    )
    excess = limits.find_excess(tx, limit, owner)
    if excess is not None:
        count = describe_count(excess.number, "live session")
        raise TooManySessions(
            f"{_describe(excess, owner)} {count}, and no more are allowed"
            f" (setting {_name('sessions', excess)}).",
            hint="Close a session, or submit to a session that exists.",
        )


def check_waiting(tx: Tx, settings: Settings, owner: str) -> None:
    """Raise QueueFull if no other statement of the owner may wait.

    Call this before the transaction locks a session.
    """
    chosen = settings.limits
    limit = Limit(
        counted=Counted.WAITING,
        total=chosen.waiting_statements,
        per_user=chosen.waiting_statements_per_user,
    )
    excess = limits.find_excess(tx, limit, owner)
    if excess is not None:
        count = describe_count(excess.number, "waiting statement")
        raise QueueFull(
            f"{_describe(excess, owner)} {count}, and no more may wait"
            f" (setting {_name('waiting_statements', excess)}).",
            hint="Submit the statement again when some of them have ended.",
        )


def running_limit(settings: Settings) -> Limit:
    """Return the limit on statements in flight."""
    chosen = settings.limits
    return Limit(
        counted=Counted.RUNNING,
        total=chosen.running_statements,
        per_user=chosen.running_statements_per_user,
    )


class FreePlaces:
    """Wakes the drivers that may claim a statement when the limit on statements has free places.

    The end of a statement wakes them at once. This periodic task covers all other ways in which a
    place becomes free, such as the loss of a driver.
    """

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._limit = running_limit(context.settings)

    def run(self) -> None:
        """Wake the drivers of the sessions that come next."""
        if not self._limit.is_set:
            return
        with self._database.read() as tx:
            chosen = limits.choose_next(tx, self._limit)
        self._database.notifications.publish(map(session_topic, chosen))


def _describe(excess: Excess, owner: str) -> str:
    return f"User {owner} has" if excess.is_per_user else "All users together have"


def _name(setting: str, excess: Excess) -> str:
    return f"limits.{setting}_per_user" if excess.is_per_user else f"limits.{setting}"
