"""Locations that an earlier version stored are identities of places after the migration."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import text
from tests.support.store import running_session

from headrace.model.stream_query import NewStreamQuery, QuerySpec
from headrace.store import migrate
from headrace.store.database import Database, Tx
from headrace.store.jobs import jobs
from headrace.store.streams import stream_queries

BEFORE, STEP = "0009", "0010"
OLD_SCHEMA = (
    f"UPDATE alembic_version SET version_num = '{BEFORE}'",
    "DROP INDEX jobs_live_state_place",
    "ALTER TABLE jobs DROP COLUMN state_place",
    "CREATE UNIQUE INDEX jobs_live_place ON jobs (state_location, name_key) WHERE ended_at IS NULL",
)


def _run_step(tx: Tx) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    config.attributes["connection"] = tx.connection
    command.upgrade(config, STEP)


def test_stored_locations_become_identities(store: Database) -> None:
    written = {
        "/data/ck": "file:/data/ck",
        "s3://bucket/ck": "s3a://bucket/ck",
        "s3n://bucket/n": "s3a://bucket/n",
        "hdfs://nn/ck": "hdfs://nn/ck",
        # Two queries share one place already, which no migration can repair.
        "s3a://bucket/both": "s3a://bucket/both",
        "s3://bucket/both": "s3://bucket/both",
    }
    session_id = running_session(store).session_id
    with store.write("test") as tx:
        for number, place in enumerate(written):
            new = NewStreamQuery(
                id=f"sq_{number}",
                owner="ada",
                scope="adhoc",
                name=f"q{number}",
                spec=QuerySpec(text="SAVE STREAM s TO noop", sink="noop", checkpoint=place),
                checkpoint_place=place,
                session_id=session_id,
                statement_id=None,
            )
            stream_queries.insert_query(tx, new, actor="ada")
        for name, location in {"local": "/state", "object": "s3://bucket/state"}.items():
            jobs.insert_job(tx, "ada", name, location, state_place=location, actor="ada")
        for statement in OLD_SCHEMA:
            tx.execute(text(statement))
        _run_step(tx)

    with store.read() as tx:
        queries = [stream_queries.get(tx, f"sq_{number}") for number in range(len(written))]
        places = [query.checkpoint_place for query in queries if query is not None]
        assert places == list(written.values())
        assert jobs.is_place_taken(tx, "LOCAL", "file:/state")
        assert jobs.is_place_taken(tx, "object", "s3a://bucket/state")
        assert not jobs.is_place_taken(tx, "local", "/state")
