"""A SQLite store: the file belongs to one node, and its writers take turns."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.support.store import INLINE, new_session, new_statement, running_session
from tests.support.waiting import wait_until

from headrace.errors import InvalidSetting, StoreInUse, StoreUnavailable
from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store.database import Database
from headrace.store.statements import statement_transitions, statements


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "headrace.db"


@pytest.fixture
def store(file: Path) -> Iterator[Database]:
    database = Database.open(f"sqlite:///{file}", connect_timeout=60)
    database.migrate()
    yield database
    database.close()


def test_a_second_node_is_refused_with_the_process_that_has_the_file_open(
    store: Database, file: Path
) -> None:
    with pytest.raises(StoreInUse, match=rf"Process {os.getpid()}\b") as refused:
        Database.open(f"sqlite:///{file}")
    assert str(file) in refused.value.message
    store.ping()


def test_a_second_process_is_refused_until_the_first_closes_the_file(
    store: Database, file: Path
) -> None:
    script = (
        "import sys\n"
        "from headrace.errors import StoreInUse\n"
        "from headrace.store.database import Database\n"
        "try:\n"
        "    Database.open(sys.argv[1]).close()\n"
        "except StoreInUse as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", script, f"sqlite:///{file}"]
    refused = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"Process {os.getpid()}" in refused.stdout
    store.close()
    accepted = subprocess.run(command, capture_output=True, text=True, check=True)
    assert accepted.stdout == ""


def test_a_closed_store_can_be_opened_again(store: Database, file: Path) -> None:
    session_id = new_session(store)
    store.close()
    store.close()
    reopened = Database.open(f"sqlite:///{file}")
    reopened.migrate()
    new_statement(reopened, session_id)
    reopened.close()


def test_only_the_owner_can_read_the_files(store: Database, file: Path) -> None:
    new_session(store)
    for each in file.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each.name


def test_every_commit_is_on_disk(store: Database) -> None:
    with store.write("test") as tx:
        # 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
        assert tx.execute(text("PRAGMA synchronous")).scalar_one() == 2
        assert tx.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        assert tx.execute(text("PRAGMA foreign_keys")).scalar_one() == 1


def test_a_reader_cannot_write(store: Database) -> None:
    with pytest.raises(StoreUnavailable, match="readonly"), store.read() as tx:
        tx.execute(text("DELETE FROM events"))


def test_readers_do_not_wait_for_a_writer(store: Database) -> None:
    session_id = new_session(store)
    with store.write("test") as tx:
        new = NewStatement(
            id=new_id("st"), session_id=session_id, owner="ada", spec=StatementSpec(text="SELECT 1")
        )
        statements.insert(tx, new, actor="ada")
        with ThreadPoolExecutor(1) as pool, store.read() as reader:
            assert statements.get(reader, new.id) is None
            assert pool.submit(lambda: _count(store)).result(timeout=60) == 0
    assert _count(store) == 1


def _count(store: Database) -> int:
    with store.read() as tx:
        return statements.active_count(tx)


def test_writers_are_served_in_order_of_arrival(store: Database) -> None:
    session_id = new_session(store)
    with ThreadPoolExecutor(8) as pool:
        with store.write("test"):
            writers = []
            for number in range(8):
                writers.append(pool.submit(new_statement, store, session_id))
                wait_until(lambda number=number: store._queue.waiting > number)  # type: ignore[misc]
        in_order = [writer.result() for writer in writers]
    with store.read() as tx:
        assert statements.live_ids(tx, session_id) == in_order


def test_every_write_to_a_locked_file_fails_within_one_deadline(file: Path) -> None:
    """Writers that wait for their turn do not begin to wait for the lock with a new deadline."""
    store = Database.open(f"sqlite:///{file}", connect_timeout=1)
    store.migrate()
    session_id = new_session(store)

    def try_to_write(_number: int) -> float:
        start = time.monotonic()
        with pytest.raises(StoreUnavailable):
            new_statement(store, session_id)
        return time.monotonic() - start

    with closing(store), closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(20) as pool:
            seconds = list(pool.map(try_to_write, range(20)))
        # One after the other, they would take 20 seconds.
        assert max(seconds) < 15
        with pytest.raises(StoreUnavailable):
            store.check_writable()
        store.ping()
        other.execute("ROLLBACK")
        store.check_writable()
        new_statement(store, session_id)


def test_no_writer_of_many_fails_with_a_lock_error(store: Database) -> None:
    session_id = new_session(store)

    def submit(_: int) -> None:
        for _ in range(15):
            new_statement(store, session_id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(submit, range(8)))
    assert _count(store) == 120


def test_a_statement_takes_four_write_transactions(store: Database) -> None:
    lease = running_session(store)
    before = store.write_count
    statement_id = new_statement(store, lease.session_id)
    with store.write("test") as tx:
        assert statement_transitions.claim_next(tx, lease)
    for state in (StatementState.RUNNING, StatementState.SUCCESS):
        with store.write("test") as tx:
            report = INLINE if state is StatementState.SUCCESS else None
            assert statement_transitions.transition(
                tx, statement_id, state, actor="d", lease=lease, result=report, result_seconds=60
            )
    assert store.write_count - before == 4


def test_a_write_transaction_inside_another_is_an_error(store: Database) -> None:
    with (
        store.write("test"),
        pytest.raises(RuntimeError, match="wait for itself"),
        store.write("test"),
    ):
        pass


def test_a_removed_file_is_an_outage_until_it_is_restored(store: Database, file: Path) -> None:
    session_id = new_session(store)
    aside = file.with_name("aside")
    file.rename(aside)
    with pytest.raises(StoreUnavailable, match="removed"):
        store.ping()
    with pytest.raises(StoreUnavailable, match="removed"):
        new_statement(store, session_id)
    aside.rename(file)
    store.ping()
    new_statement(store, session_id)


def test_a_full_disk_is_an_outage_until_there_is_space(store: Database) -> None:
    session_id = new_session(store)
    with store.write("test") as tx:
        pages = tx.execute(text("PRAGMA page_count")).scalar_one()
        tx.execute(text(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(StoreUnavailable, match="full"):
        new_statement(store, session_id, text="x" * 100_000)
    assert _count(store) == 0
    with store.write("test") as tx:
        tx.execute(text("PRAGMA max_page_count = 1000000"))
    new_statement(store, session_id, text="x" * 100_000)


def test_a_file_that_is_not_a_database_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("nothing here is a database" * 100)
    store = Database.open(f"sqlite:///{tmp_path / 'note.txt'}")
    with pytest.raises(StoreUnavailable):
        store.migrate()
    store.close()


def test_a_path_at_which_no_file_can_be_created_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"file/headrace\.db"):
        Database.open(f"sqlite:///{tmp_path}/file/headrace.db")


@pytest.mark.parametrize(
    "url", ["", "headrace.db", "sqlite://", "sqlite:///:memory:", "mysql://u:secret@h/d"]
)
def test_an_invalid_store_url_is_an_invalid_setting(url: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        Database.open(url)
    assert "secret" not in refused.value.message


def test_a_reader_beyond_the_pool_size_is_refused(store: Database, file: Path) -> None:
    store.close()
    small = Database.open(f"sqlite:///{file}", pool_size=4, connect_timeout=2)
    release = threading.Event()
    inside: list[int] = []

    def read() -> None:
        with small.read():
            inside.append(1)
            release.wait(60)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(inside) == 4)
    with pytest.raises(StoreUnavailable, match="free connection"), small.read():
        pass
    release.set()
    for thread in threads:
        thread.join()
    small.ping()
    small.close()
