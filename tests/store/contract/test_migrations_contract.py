"""Contract of the migrations: they create the tables of the code, once, also when run at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, create_engine, inspect, text
from tests.support.postgres import Postgres
from tests.support.store import new_session, new_statement
from tests.support.waiting import wait_until

from headrace.errors import SchemaTooNew
from headrace.store import migrate
from headrace.store.database import Database
from headrace.store.tables import metadata

_INDEX = "statements_live_by_owner"


@pytest.fixture
def empty_postgres(postgres: Postgres) -> Iterator[str]:
    """Return the URL of a database without any table."""
    name = postgres.new_database()
    yield postgres.url(name)
    postgres.drop(name)


def test_migrations_create_the_tables_indexes_and_checks_of_the_code(store: Database) -> None:
    with store.read() as tx:
        assert compare_metadata(MigrationContext.configure(tx.connection), metadata) == []
        database = inspect(tx.connection)
        for table in metadata.tables.values():
            indexes = {
                str(index["name"]): str(
                    index.get("dialect_options", {}).get(f"{store.dialect}_where")
                )
                for index in database.get_indexes(table.name)
                if "duplicates_constraint" not in index
            }
            expected = {
                str(index.name): str(index.dialect_options[store.dialect]["where"])
                for index in table.indexes
            }
            assert _normalize(indexes) == _normalize(expected)
            checks = {check["name"] for check in database.get_check_constraints(table.name)}
            assert checks == {
                constraint.name
                for constraint in table.constraints
                if isinstance(constraint, CheckConstraint)
            }


def test_migrations_create_exactly_the_schema_of_the_code(
    empty_postgres: str, postgres: Postgres
) -> None:
    name = postgres.new_database()
    try:
        engine = create_engine(postgres.url(name).replace("postgresql:", "postgresql+psycopg:"))
        metadata.create_all(engine)
        engine.dispose()
        expected = _describe_schema(postgres.url(name))
    finally:
        postgres.drop(name)
    store = Database.open(empty_postgres)
    store.migrate()
    # A migrated store gets some of its indexes in the background.
    wait_until(
        lambda: len(_describe_schema(empty_postgres)) >= len(expected), what="the indexes exist"
    )
    store.close()

    assert _describe_schema(empty_postgres) == expected


_SCHEMA = """
    SELECT 'index', indexname, regexp_replace(indexdef, ' ON [a-z]+[.]', ' ON ')
    FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT 'constraint', conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'column', table_name || '.' || column_name,
        concat_ws(' ', data_type, column_default, is_nullable, collation_name, is_identity)
    FROM information_schema.columns WHERE table_schema = 'public'
"""


def _describe_schema(url: str) -> set[tuple[str, str, str]]:
    """Return each index, constraint and column of a PostgreSQL store with its definition."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(_SCHEMA).fetchall()
    return {(kind, name, text) for kind, name, text in rows if "alembic" not in name}


def _normalize(conditions: dict[str, str]) -> dict[str, str]:
    """Remove the parentheses and casts that PostgreSQL adds to conditions."""
    bare = {name: where.translate({40: "", 41: ""}) for name, where in conditions.items()}
    return {name: where.replace("::text", "") for name, where in bare.items()}


def test_migrating_again_changes_nothing(store: Database) -> None:
    new_session(store, name="kept")
    store.migrate()
    with store.read() as tx:
        assert tx.execute(text("SELECT count(*) FROM sessions")).scalar_one() == 1


def test_several_nodes_can_migrate_at_once(empty_postgres: str) -> None:
    stores = [Database.open(empty_postgres) for _ in range(4)]
    ready = threading.Barrier(len(stores))

    def migrate(store: Database) -> None:
        ready.wait()
        store.migrate()

    with ThreadPoolExecutor(len(stores)) as pool:
        for done in [pool.submit(migrate, store) for store in stores]:
            done.result(timeout=60)
    new_session(stores[0])
    for store in stores:
        store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def newer_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Open a store that a newer Headrace has migrated."""
    url = f"sqlite:///{tmp_path / 'headrace.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("empty_postgres")
    database = Database.open(url)
    database.migrate()
    with database.write("test") as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        tx.execute(text("UPDATE schema_support SET oldest_code = '9998'"))
    yield database
    database.close()


def test_a_newer_schema_is_refused_and_not_changed(newer_store: Database) -> None:
    with pytest.raises(SchemaTooNew, match="9999"):
        newer_store.migrate()
    with newer_store.read() as tx:
        assert tx.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "9999"


def test_a_newer_schema_that_supports_this_version_is_used(newer_store: Database) -> None:
    with newer_store.write("test") as tx:
        tx.execute(text("UPDATE schema_support SET oldest_code = '0001'"))

    newer_store.migrate()

    with newer_store.read() as tx:
        assert tx.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "9999"
    new_session(newer_store)


def test_indexes_are_created_while_other_nodes_write(empty_postgres: str) -> None:
    store = Database.open(empty_postgres)
    store.migrate()
    session_id = new_session(store)
    with store.write("test") as tx:
        tx.execute(text("DROP INDEX statements_live_by_owner"))
    migrating, other = threading.Thread(target=store.migrate), Database.open(empty_postgres)

    # CREATE INDEX CONCURRENTLY waits for the transaction, and does not block it.
    with other.write("test") as tx:
        tx.execute(text("UPDATE statements SET note = NULL"))
        migrating.start()
        wait_until(lambda: _has_index(store), what="the index is being created")
        new_statement(store, session_id)
        assert migrating.is_alive()
    migrating.join(60)

    assert _has_index(store, valid=True)
    for each in (store, other):
        each.close()


def test_an_index_that_is_not_valid_is_created_again(empty_postgres: str) -> None:
    store = Database.open(empty_postgres)
    store.migrate()
    with store.write("test") as tx:
        interrupt = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass(:index)"
        tx.execute(text(interrupt), {"index": _INDEX})

    store.migrate()

    assert _has_index(store, valid=True)
    store.close()


def _has_index(store: Database, *, valid: bool | None = None) -> bool:
    query = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:index)"
    with store.read() as tx:
        found = tx.execute(text(query), {"index": _INDEX}).scalar_one_or_none()
    return found is not None and (valid is None or found == valid)


def test_a_failed_migration_leaves_no_table(tmp_path: Path) -> None:
    store = Database.open(f"sqlite:///{tmp_path / 'headrace.db'}")
    try:
        with store.write("test") as tx:
            tx.execute(text("CREATE TABLE results (x INTEGER)"))
        with pytest.raises(Exception, match="results"):
            store.migrate()
        with store.read() as tx:
            assert inspect(tx.connection).get_table_names() == ["results"]
    finally:
        store.close()


def test_the_file_of_each_step_begins_with_its_revision() -> None:
    scripts = ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))
    files = {script.revision: Path(script.path).name for script in scripts.walk_revisions()}
    assert all(file.startswith(revision) for revision, file in files.items())
    # A node takes the last file for the current schema.
    assert max(files) == scripts.get_current_head()
