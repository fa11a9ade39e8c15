"""Contract of the column types: values that a newer node has written."""

from __future__ import annotations

from sqlalchemy import Column, MetaData, Table, insert, select, text
from tests.support.store import new_session, new_statement

from headrace.frontends.rest.schemas import MAX_INTEGER
from headrace.model.lifecycle import StatementState
from headrace.model.request_fields import FieldKind
from headrace.model.session import SessionKind
from headrace.store.database import Database
from headrace.store.sessions import sessions
from headrace.store.statements import statements
from headrace.store.tables import FIELD_TYPES


def test_an_unknown_value_of_an_enum_is_read_as_text(store: Database) -> None:
    session_id = new_session(store)
    statement_id = new_statement(store, session_id)
    with store.write("test") as tx:
        for table in ("sessions", "statements"):
            tx.execute(text(f"UPDATE {table} SET kind = 'notebook'"))
    with store.read() as tx:
        session, statement = sessions.get(tx, session_id), statements.get(tx, statement_id)

    assert session is not None
    assert statement is not None
    assert session.kind == statement.spec.kind == "notebook"
    assert session.kind not in set(SessionKind)
    assert statement.state is StatementState.WAITING


def test_the_largest_count_of_a_request_fits_into_its_column(store: Database) -> None:
    counts = Table("counts", MetaData(), Column("value", FIELD_TYPES[FieldKind.COUNT]))
    with store.write("test") as tx:
        counts.create(tx.connection)
        tx.execute(insert(counts), {"value": MAX_INTEGER})
        assert tx.execute(select(counts.c.value)).scalar_one() == MAX_INTEGER
        counts.drop(tx.connection)
