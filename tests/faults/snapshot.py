"""All rows of a store at one moment, on which the invariants are checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, NullPool, create_engine, make_url, select
from tests.faults.invariants import Rows

from headrace.model.lifecycle import SessionState
from headrace.store.tables import (
    catalog_intents,
    deployments,
    events,
    jobs,
    operations,
    results,
    savepoints,
    sessions,
    statements,
    stream_queries,
    transactions,
)


def read_snapshot(store_url: str) -> Rows:
    """Return all rows of a store, from one snapshot.

    Args:
        store_url: URL of the store, as in the setting `store.url`.
    """
    with _connect(store_url) as connection:
        tables = {
            name: list(connection.execute(query).mappings())
            for name, query in {
                "events": select(events).order_by(events.c.id),
                "statements": select(statements),
                "sessions": select(sessions),
                "results": select(results.c.statement_id, results.c.location),
                "transactions": select(transactions),
                "stream_queries": select(stream_queries),
                "catalog_intents": select(catalog_intents),
                "jobs": select(jobs),
                "deployments": select(deployments.c.id, deployments.c.state),
                "operations": select(operations),
                "savepoints": select(savepoints),
            }.items()
        }
    return Rows(**tables)


def read_starts(store_url: str) -> dict[tuple[str, int], int]:
    """Return session and epoch of each driver that starts: it has not said hello to a node.

    The value is the number of the start since the last hello in the session.
    """
    columns = (sessions.c.id, sessions.c.epoch, sessions.c.starts)
    starting = select(*columns).where(
        sessions.c.state.in_([SessionState.STARTING, SessionState.RECOVERING]),
        sessions.c.lease_until.is_not(None),
        sessions.c.fenced_driver.is_(None),
    )
    with _connect(store_url) as connection:
        return {(row.id, row.epoch): row.starts for row in connection.execute(starting)}


@contextmanager
def _connect(store_url: str) -> Iterator[Connection]:
    """Connect to a store during the block, which sees one snapshot."""
    url = make_url(store_url)
    is_postgres = url.drivername == "postgresql"
    if is_postgres:
        url = url.set(drivername="postgresql+psycopg")
    level = "REPEATABLE READ" if is_postgres else "AUTOCOMMIT"
    engine = create_engine(url, poolclass=NullPool, isolation_level=level)
    try:
        with engine.connect() as connection:
            if not is_postgres:
                connection.exec_driver_sql("BEGIN")
            yield connection
    finally:
        engine.dispose()
