"""Result files of attempts that were killed: no row refers to them, and no driver writes them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from headrace.model.result import ResultAttempt
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import results, sessions, statements


def find_abandoned(
    tx: Tx, attempts: Sequence[ResultAttempt], *, grace_seconds: float
) -> list[ResultAttempt]:
    """Return the attempts whose files can be deleted.

    A statement that the store does not have may belong to another store with the same results
    location, so its files stay.

    Args:
        attempts: Attempts that have files. Keep the number small: one query asks for all.
        grace_seconds: Time since the end of the statement, after which no driver writes for it.
    """
    query = (
        select(
            statements.c.id,
            sessions.c.epoch,
            sessions.c.ended_at.label("session_ended_at"),
            sessions.c.fenced_driver,
            results.c.location,
        )
        .join_from(statements, sessions, sessions.c.id == statements.c.session_id)
        .outerjoin(results, results.c.statement_id == statements.c.id)
        .where(
            statements.c.id.in_({attempt.statement_id for attempt in attempts}),
            statements.c.ended_at < clock(-grace_seconds),
        )
    )
    rows = {row.id: row for row in tx.execute(query)}
    abandoned = []
    for attempt in attempts:
        row = rows.get(attempt.statement_id)
        if row is None or (row.location and attempt.is_at(row.location)):
            continue
        fenced = row.fenced_driver is not None and row.fenced_driver.epoch == attempt.epoch
        has_driver = row.session_ended_at is None and row.epoch == attempt.epoch
        if not (fenced or has_driver):
            abandoned.append(attempt)
    return abandoned
