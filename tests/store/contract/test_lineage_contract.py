"""Contract of lineage: the tables of a statement are stored with its end, and join it to others."""

from __future__ import annotations

from sqlalchemy import delete
from tests.support.lineage import READ, WRITE, make_use, save_lineage
from tests.support.store import OWNER, running_session

from headrace.model.ids import new_id
from headrace.model.lineage import LineageDirection
from headrace.model.stream_query import NewStreamQuery, QuerySpec
from headrace.model.system_tables import SystemTable
from headrace.store import lineage
from headrace.store.database import Database
from headrace.store.streams import stream_queries
from headrace.store.system_tables import list_rows
from headrace.store.tables import events, statements
from headrace.store.tables import stream_queries as stream_table


def neighbours(
    store: Database, name: str, direction: LineageDirection, *owners: str, newest: int = 100
) -> list[tuple[str, str]]:
    with store.read() as tx:
        return [
            (each.table_key, each.statement_id)
            for each in lineage.list_neighbours(
                tx,
                f"spark_catalog.default.{name}",
                direction,
                owners=owners or None,
                newest=newest,
                limit=100,
            )
        ]


def test_the_tables_of_a_statement_are_returned_in_their_order(store: Database) -> None:
    statement_id = save_lineage(store, "Flights", "late")
    with store.read() as tx:
        assert lineage.list_of_statement(tx, statement_id) == [
            make_use("Flights", READ, "a", "b"),
            make_use("late", WRITE),
        ]


def test_tables_are_neighbours_by_the_statements_that_read_one_and_write_the_other(
    store: Database,
) -> None:
    first = save_lineage(store, "FLIGHTS", "late")
    second = save_lineage(store, "flights", "Late")
    save_lineage(store, "other", "unrelated")
    assert set(neighbours(store, "late", WRITE)) == {
        ("spark_catalog.default.flights", first),
        ("spark_catalog.default.flights", second),
    }
    assert {key for key, _ in neighbours(store, "flights", READ)} == {"spark_catalog.default.late"}
    assert neighbours(store, "late", READ) == []
    assert neighbours(store, "late", WRITE, newest=1) == [("spark_catalog.default.flights", second)]


def test_only_the_statements_of_the_given_owners_join_tables(store: Database) -> None:
    own = save_lineage(store, "flights", "late", owner="ada")
    save_lineage(store, "secret", "late", owner="bob")
    assert neighbours(store, "late", WRITE, "ada", "eve") == [
        ("spark_catalog.default.flights", own)
    ]
    with store.read() as tx:
        assert lineage.list_recent_tables(tx, owners=["ada"]) == {
            "spark_catalog.default.flights",
            "spark_catalog.default.late",
        }
        assert len(lineage.list_recent_tables(tx, owners=None)) == 3
        key = "spark_catalog.default.secret"
        assert not lineage.has_table(tx, key, owners=["ada"])
        assert lineage.has_table(tx, key, owners=None)


def test_lineage_is_deleted_with_its_statement(store: Database) -> None:
    statement_id = save_lineage(store, "flights", "late")
    with store.write("test") as tx:
        tx.execute(delete(events))
        tx.execute(delete(statements).where(statements.c.id == statement_id))
    with store.read() as tx:
        assert lineage.list_recent_tables(tx, owners=None) == set()


def test_a_streaming_query_is_between_its_tables_until_it_is_deleted(store: Database) -> None:
    lease = running_session(store)
    query_ids = []
    for scope in ("adhoc", "load"):
        new = NewStreamQuery(
            id=new_id("sq"),
            owner=OWNER,
            scope=scope,
            name="q",
            spec=QuerySpec(text="SAVE STREAM s TO TABLE late IDENTIFIED BY q", sink="table"),
            checkpoint_place=None,
            session_id=lease.session_id,
            statement_id=None,
        )
        query_ids.append(new.id)
        with store.write("test") as tx:
            stream_queries.insert_query(tx, new, actor=OWNER)
            query = stream_queries.get(tx, new.id)
            assert query is not None
            # A later report replaces the one before.
            lineage.save_of_stream(tx, query, [make_use("other", READ)])
            tables = [make_use("flights", READ, "a"), make_use("late", WRITE)]
            lineage.save_of_stream(tx, query, tables)

    def list_neighbours(owner: str) -> list[tuple[str, str, str | None, str | None]]:
        with store.read() as tx:
            found = lineage.list_stream_neighbours(
                tx, "spark_catalog.default.late", WRITE, owners=[owner], newest=9, limit=9
            )
        return sorted((each.table_key, each.statement_id, each.job, each.run_id) for each in found)

    flights = "spark_catalog.default.flights"
    adhoc, job = query_ids
    assert list_neighbours(OWNER) == [(flights, adhoc, None, None), (flights, job, "load", None)]
    assert list_neighbours("eve") == []
    with store.read() as tx:
        assert lineage.has_table(tx, flights, owners=[OWNER])
        assert not lineage.has_table(tx, "spark_catalog.default.other", owners=None)
        assert flights in lineage.list_recent_tables(tx, owners=[OWNER])
        rows = list_rows(tx, SystemTable.LINEAGE, OWNER, 10)
    assert {(row["statement_id"], row["job"]) for row in rows} == {(adhoc, None), (job, "load")}
    with store.write("test") as tx:
        tx.execute(delete(stream_table).where(stream_table.c.id == adhoc))
    assert list_neighbours(OWNER) == [(flights, job, "load", None)]
