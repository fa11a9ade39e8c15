"""Contract of the open store: counts of write transactions."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from headrace.store.database import Database


def test_committed_write_transactions_are_counted_by_name(store: Database) -> None:
    for name in ("statement.submit", "statement.submit", "session.create"):
        with store.write(name):
            pass
    with pytest.raises(LookupError), store.write("statement.submit"):
        raise LookupError
    assert store.write_counts == {"statement.submit": 2, "session.create": 1}
    assert store.write_count == 3


def test_callbacks_learn_whether_the_transaction_is_committed(store: Database) -> None:
    calls: list[object] = []
    with store.notifications.subscribe("topic", lambda: calls.append("wake-up")):
        with store.write("test") as tx:
            tx.wake("topic")
            tx.on_end(lambda _is_committed: calls.pop())
            tx.on_end(calls.append)
        with pytest.raises(LookupError), store.write("test") as tx:
            tx.wake("topic")
            tx.on_end(calls.append)
            raise LookupError
    assert calls == [True, "wake-up", False]


@pytest.mark.finding("S15")
def test_an_error_of_the_database_does_not_show_parameters(store: Database) -> None:
    for connect in (store.read, lambda: store.write("test")):
        with pytest.raises(SQLAlchemyError) as caught, connect() as tx:
            tx.execute(text("SELECT missing(:secret)"), {"secret": "hunter2"})
        assert "hunter2" not in str(caught.value)


def test_a_connection_in_use_is_closed_when_it_returns_to_a_closed_store(store: Database) -> None:
    with store.read() as tx:
        in_use = tx.connection.connection.dbapi_connection
        store.close()
        tx.execute(text("SELECT 1"))

    with pytest.raises(Exception, match="closed"):
        in_use.cursor().execute("SELECT 1")
