"""Earlier runs of the text of a statement."""

from __future__ import annotations

import hashlib

from sqlalchemy import select

from headrace.model.lifecycle import StatementState
from headrace.model.statement import Statement
from headrace.store.database import Tx
from headrace.store.tables import SLOW, statements

_DIGEST_BYTES = 16


def digest_text(text: str) -> str:
    """Return the digest by which the store finds statements with the same text."""
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def read_durations(tx: Tx, statement: Statement, limit: int) -> list[float]:
    """Return how many seconds the last successful runs of the same text took, the newest first.

    They are runs of the same owner that took at least a second, and ended before the statement
    began. Shorter ones are not in the index.
    """
    if statement.started_at is None:
        return []
    columns = statements.c
    query = (
        select(columns.started_at, columns.ended_at)
        .where(
            columns.owner == statement.owner,
            columns.text_digest == digest_text(statement.spec.text),
            SLOW[tx.dialect],
            columns.state == StatementState.SUCCESS,
            columns.ended_at <= statement.started_at,
        )
        .order_by(columns.ended_at.desc())
        .limit(limit)
    )
    return [(row.ended_at - row.started_at).total_seconds() for row in tx.execute(query)]
