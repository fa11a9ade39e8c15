"""Wake-ups for other processes on a PostgreSQL store, sent only where one of them waits.

A transaction that sends a wake-up holds a lock of the whole server while it commits, so that such
transactions commit one after the other. For most changes, none is needed: no client waits for the
statement, and the driver polls the process that makes the change.

The rows say who waits: `sessions.link_process` answers the polls of the driver,
`statements.awaited_by` has requests that wait for the end of the statement, and
`nodes.event_process` streams events. A transaction can miss a process that begins to wait at that
moment. A process that begins to wait therefore reads the store again after a second.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, text

from headrace.store.notifications import SESSION, STATEMENT

CHANNEL = "headrace"
SEVERAL = "*"
"""In place of a process in `statements.awaited_by`: more than one process waits."""
NO_PROCESS = ""
"""In place of a process: none waits."""
_TOPICS_AT_ONCE = 150
"""Topics in one payload. PostgreSQL refuses payloads of 8,000 bytes, and a topic has up to 45."""

_FIND_WAITERS = text("""
    SELECT concat('session:', id),
      CASE WHEN state IN ('not_started', 'starting') THEN '' ELSE link_process END
    FROM sessions WHERE id = ANY(:sessions)
    UNION ALL
    SELECT concat('statement:', id), coalesce(awaited_by, '')
    FROM statements WHERE id = ANY(:statements)
""")
_NOTIFY = text("SELECT pg_notify(:channel, :payload)")


def send(
    connection: Connection,
    process: str,
    topics: Collection[str],
    waiters: Mapping[str, str | None],
    *,
    polled: Collection[str],
) -> None:
    """Send wake-ups with the commit of a transaction, to the processes that wait.

    Args:
        process: The process that sends them.
        waiters: The process that waits, by topic; None: it is not known. Those of other topics of
            sessions and statements are read.
        polled: Those of the topics to which this process subscribes. A driver that polls a process
            of an older version, which does not write `link_process`, is thus not mistaken for a
            driver that polls this one.
    """
    unknown = [topic for topic in topics if topic not in waiters]
    waiters = {**waiters, **_read_waiters(connection, unknown)}
    remaining = [
        topic
        for topic in topics
        if _needs_wake_up(process, topic, waiters.get(topic), is_polled=topic in polled)
    ]
    while remaining:
        some, remaining = remaining[:_TOPICS_AT_ONCE], remaining[_TOPICS_AT_ONCE:]
        payload = "\n".join([process, *some])
        connection.execute(_NOTIFY, {"channel": CHANNEL, "payload": payload})


def decode(payload: str, process: str) -> Sequence[str]:
    """Return the topics of the payload of another process; none for one of this process."""
    sender, *topics = payload.split("\n")
    return [] if sender == process else topics


def _needs_wake_up(process: str, topic: str, waiter: str | None, *, is_polled: bool) -> bool:
    if waiter == NO_PROCESS:
        return False
    return waiter != process or (topic.startswith(f"{SESSION}:") and not is_polled)


def _read_waiters(connection: Connection, topics: Collection[str]) -> dict[str, str | None]:
    ids: dict[str, list[str]] = {SESSION: [], STATEMENT: []}
    for topic in topics:
        kind, _, topic_id = topic.partition(":")
        if kind in ids:
            ids[kind].append(topic_id)
    if not any(ids.values()):
        return {}
    names = {"sessions": ids[SESSION], "statements": ids[STATEMENT]}
    return {row[0]: row[1] for row in connection.execute(_FIND_WAITERS, names)}
