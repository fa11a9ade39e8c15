"""Streaming queries on real Spark: they survive the loss of drivers and nodes, rows included."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from tests.support.gates import Gate
from tests.support.lakes import lake_jars
from tests.support.node import NodeProcess
from tests.support.postgres import Postgres
from tests.support.processes import kill_with_descendants
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


def start_node(folder: Path) -> NodeProcess:
    """Start a node with a short lease."""
    return NodeProcess(folder / "home", LEASE__DURATION="10s", LEASE__RENEW="1s")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Yield a node for the tests of this file that do not end it."""
    process = start_node(tmp_path_factory.mktemp("node"))
    yield process
    process.close()


@pytest.fixture(scope="module")
def session(node: NodeProcess) -> str:
    """Return a streaming session, in which the queries of this file run.

    Its driver reaches PostgreSQL, if the jar was downloaded.
    """
    jars = [str(jar) for jar in lake_jars("postgresql")]
    session_id = node.session(name="streams", kind="streaming", jars=jars)
    node.wait_running(session_id)
    return session_id


class Numbers:
    """A folder of JSON files, each with ten numbers, which a stream reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        folder.mkdir()
        self.add()

    def add(self) -> None:
        """Add a file with the next ten numbers, which appears whole."""
        lines = [json.dumps({"n": n}) for n in range(self.count, self.count + 10)]
        hidden = self.folder / f".{self.count}"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.folder / f"{self.count}.json")
        self.count += 10


def define_numbers(node: NodeProcess, session: str, folder: Path) -> Numbers:
    """Define the stream `numbers`, which reads a new folder."""
    numbers = Numbers(folder)
    path = f"'path' = '{folder}'"
    text = f"CREATE OR REPLACE STREAM numbers (n INT) FROM json OPTIONS ({path})"
    statement = node.run(text, session)
    assert statement["state"] == "success", statement
    return numbers


@pytest.fixture
def numbers(node: NodeProcess, session: str, tmp_path: Path) -> Numbers:
    return define_numbers(node, session, tmp_path / "numbers")


@pytest.fixture
def fragile_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """Yield a node that the test ends and starts again."""
    process = start_node(tmp_path)
    yield process
    process.close()


def kill_driver(node: NodeProcess, session: str) -> None:
    """Kill the Python process and the JVM of a session's driver."""
    driver = psutil.Process(node.describe_session(session)["driver"]["pid"])
    kill_with_descendants(driver)


def read_numbers(node: NodeProcess, session: str, path: str) -> tuple[int, int]:
    """Return the number of rows in a sink, and the number of different ones."""
    rows = node.rows(f"SELECT count(*), count(DISTINCT n) FROM parquet.`{path}`", session)
    return int(rows[0][0]), int(rows[0][1])


def test_rows_are_neither_lost_nor_duplicated_when_drivers_and_nodes_are_killed(
    fragile_node: NodeProcess, tmp_path: Path
) -> None:
    node = fragile_node
    session = node.session(kind="streaming")
    numbers = define_numbers(node, session, tmp_path / "numbers")
    node.run("SAVE STREAM numbers TO parquet IDENTIFIED BY exactly TRIGGER 1 SECOND", session)
    path = node.stream("exactly")["path"]
    # Without a first batch, the folder has no schema that the query below could read.
    wait_until(
        lambda: node.stream("exactly")["last_batch"] is not None,
        seconds=120,
        what="the first batch",
    )
    for kill in ("driver", "node", "driver"):
        numbers.add()
        if kill == "node":
            node.kill()
            node.start()
        else:
            kill_driver(node, session)
        numbers.add()
        wait_until(
            lambda: read_numbers(node, session, path)[1] == numbers.count,
            seconds=180,
            what="all rows have arrived",
            every=1.0,
        )
    node.act_on_stream("exactly", "stop")
    wait_until(lambda: node.stream("exactly")["state"] == "stopped", what="the query has stopped")

    assert read_numbers(node, session, path) == (numbers.count, numbers.count)
    states = {event["to"] for event in node.events(node.stream("exactly")["id"])}
    assert "failed" not in states


SEED_EXAMPLES = {
    "SAVE STREAM foo\nTO CONSOLE;": "foo",
    "SAVE STREAM foo\nTO CONSOLE\nIDENTIFIED BY foo_console;": "foo_console",
    "SAVE STREAM foo\nTO JSON\nIDENTIFIED BY foo_json;": "foo_json",
    "SAVE STREAM foo(a int, b int, c int)\nTO JSON\nPARTITIONED ON(a, b);": "foo",
    "SAVE STREAM foo\nTO CONSOLE\nTRIGGER 5 MINUTES;": "foo",
    "SAVE STREAM foo\nTO JSON\nOPTIONS(\n'checkpointLocation'='{folder}/wal'\n);": "foo",
    "SAVE STREAM foo\nTO CONSOLE\nOPTIONS(\n'pstl.retry.enabled'='false'\n);": "foo",
    "SAVE STREAM foo\nTO CONSOLE\nOPTIONS(\n'pstl.retry.max.attempts'='3'\n);": "foo",
    "SAVE STREAM foo\nTO CONSOLE\nOPTIONS(\n'pstl.retry.max.backoff'='1d'\n);": "foo",
    "SAVE STREAM foo\nTO CONSOLE\nOPTIONS(\n'pstl.retry.min.backoff'='1m'\n);": "foo",
    "SAVE STREAM foo\nTO CONSOLE\nOPTIONS(\n'pstl.retry.random.factor'='0.2'\n);": "foo",
}
"""The statements of the seed (PSTL's page on sinks), with the names of their queries."""


def test_every_statement_of_the_seed_runs_as_it_is_written(
    node: NodeProcess, session: str, tmp_path: Path
) -> None:
    ticks = "CREATE STREAM ticks FROM `rate-micro-batch` OPTIONS ('rowsPerBatch' = '4')"
    columns = "CAST(value % 2 AS INT) AS a, CAST(value % 3 AS INT) AS b, CAST(value AS INT) AS c"
    for text in (ticks, f"CREATE STREAM foo AS SELECT {columns} FROM ticks"):
        assert node.run(text, session)["state"] == "success"
    for number, (text, name) in enumerate(SEED_EXAMPLES.items()):
        # The examples are jobs of their own: most have the same name, and sinks of other kinds. No
        # query writes to a folder with the log of another one.
        shutil.rmtree(node.home / "streams", ignore_errors=True)
        conf = {"spark.sql.streaming.checkpointLocation": f"{tmp_path}/{number}"}
        statement = node.run(text.replace("{folder}", str(tmp_path)), session, conf=conf)
        assert statement["state"] == "success", (text, statement)
        query = node.stream(name)
        assert query["state"] in {"starting", "running"}, (text, query)
        conflict = node.http.post(
            "/api/v1/statements",
            json={"statement": f"SAVE STREAM ticks TO NOOP IDENTIFIED BY {name}"},
        )
        assert conflict.status_code == 409, text
        wait_until(
            lambda name=name: node.stream(name)["last_batch"] is not None,
            seconds=120,
            what=f"{text} runs",
        )
        node.act_on_stream(name, "stop")
        wait_until(
            lambda name=name: node.stream(name)["state"] == "stopped", what=f"{text} has stopped"
        )
        assert node.stream(name)["failures"] == 0, text


def test_a_closed_session_stops_its_queries_before_its_driver_ends(
    node: NodeProcess, numbers: Numbers
) -> None:
    other = node.session(kind="streaming")
    node.run("SAVE STREAM numbers TO noop IDENTIFIED BY closing TRIGGER 1 SECOND", other)
    node.http.delete(f"/api/v1/sessions/{other}")
    wait_until(lambda: node.session_state(other) == "dead", seconds=120, what="the session ends")
    query = node.stream("closing")

    assert query["state"] == "stopped"
    assert query["last_error"] is None
    log = node.http.get(f"/api/v1/sessions/{other}/log").text
    assert "did not stop in time" not in log


def test_the_command_line_shows_a_query_that_backs_off(
    node: NodeProcess, session: str, numbers: Numbers
) -> None:
    node.run(
        "CREATE OR REPLACE STREAM broken AS SELECT raise_error('broken row') AS e FROM numbers",
        session,
    )
    node.run("SAVE STREAM broken TO noop OPTIONS ('headrace.retry.min.backoff' = '10min')", session)
    wait_until(lambda: node.stream("broken")["state"] == "backing_off", what="the query backs off")
    command = [sys.executable, "-m", "headrace.cli", "stream", "show", "broken"]
    shown = subprocess.run(
        command, env=node.client_environment, capture_output=True, text=True, check=True
    ).stdout
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines() if " " in line)

    assert lines["state"] == "backing_off"
    assert lines["failures"] == "1"
    assert lines["last_error"] == "broken row"
    assert lines["retry_at"] == node.stream("broken")["retry_at"]
    node.act_on_stream("broken", "stop")
    wait_until(lambda: node.stream("broken")["state"] == "stopped", what="the query has stopped")


def test_a_stream_over_a_temporary_view_is_refused_by_its_name(
    node: NodeProcess, session: str, numbers: Numbers
) -> None:
    node.run("CREATE OR REPLACE TEMPORARY VIEW mine AS SELECT 1 AS n", session)
    text = "CREATE STREAM joined AS SELECT numbers.n FROM numbers JOIN mine ON mine.n = numbers.n"
    statement = node.run(text, session)

    assert statement["error"]["code"] == "invalid_stream"
    assert "temporary view mine" in statement["error"]["message"]
    assert "joined" not in str(node.rows("SHOW STREAMS"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE STREAM s (a intt) FROM json OPTIONS ('path' = '/x')", 'data type "INTT"'),
        ("CREATE STREAM s AS SELECT nosuch FROM numbers", "`nosuch` cannot be resolved"),
        ("SAVE STREAM nosuch TO noop", "`nosuch` is neither a stream that you have defined"),
        (
            "CREATE STREAM s (a INT) FROM avro OPTIONS ('path' = '/x')",
            "the jars of org.apache.spark:spark-avro_2.13 are missing",
        ),
        ("SAVE STREAM numbers TO avro", "the jars of org.apache.spark:spark-avro_2.13 are missing"),
        (
            "CREATE STREAM s FROM iceberg OPTIONS ('path' = 'lake.db.t')",
            "iceberg-spark-runtime-4.1_2.13 are missing",
        ),
    ],
)
def test_an_error_of_spark_fails_the_statement_and_starts_nothing(
    node: NodeProcess, session: str, numbers: Numbers, text: str, message: str
) -> None:
    statement = node.run(text, session)

    assert statement["state"] == "failed"
    assert message in statement["error"]["message"]
    live = node.http.get("/api/v1/streams", params={"live": True}).json()["items"]
    assert [query["name"] for query in live] == []


class Database:
    """A database with the table `numbers`, to which queries write batches."""

    def __init__(self, postgres: Postgres) -> None:
        name = postgres.new_database()
        self._url = f"postgresql://postgres@127.0.0.1:{postgres.port}/{name}"
        self.jdbc = f"jdbc:postgresql://127.0.0.1:{postgres.port}/{name}"
        self.execute("CREATE TABLE numbers (n INT)")

    def execute(self, text: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def block_commits(self) -> Iterator[None]:
        """Let batches stage their rows, and wait before their commit until the block ends."""
        with psycopg.connect(self._url) as connection:
            connection.execute("LOCK TABLE numbers IN ACCESS EXCLUSIVE MODE")
            yield

    def count_staged(self) -> list[object]:
        """Return the number of rows in each table of a batch."""
        query = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'headrace_batch_%'"
        counts = []
        for (name,) in self.execute(query):
            # The query may drop the table in between.
            with suppress(psycopg.errors.UndefinedTable):
                counts.append(self.execute(f"SELECT count(*) FROM {name}")[0][0])
        return counts

    def count(self) -> tuple[object, ...]:
        """Return the number of rows, and the number of different ones."""
        return self.execute("SELECT count(*), count(DISTINCT n) FROM numbers")[0]


def kill_in_batches(node: NodeProcess, session: str, database: Database, *queries: str) -> None:
    """Start queries, and kill their driver when each has staged the ten rows of its batch."""
    with database.block_commits():
        for query in queries:
            saved = node.run(f"SAVE STREAM numbers TO db IDENTIFIED BY {query}", session)
            assert saved["state"] == "success", saved
        expected = [10] * len(queries)
        wait_until(lambda: database.count_staged() == expected, seconds=120, what="staged rows")
        kill_driver(node, session)


@pytest.mark.catalogs
def test_no_staged_rows_stay_in_a_database_when_their_driver_is_killed(
    node: NodeProcess, session: str, numbers: Numbers, postgres: Postgres
) -> None:
    database = Database(postgres)
    options = f"'url' = '{database.jdbc}', 'dbtable' = 'numbers', 'user' = 'postgres'"
    assert node.run(f"CREATE SINK db TO jdbc OPTIONS ({options})", session)["state"] == "success"
    kill_in_batches(node, session, database, "continued", "stopped")
    node.act_on_stream("stopped", "stop")
    # The next driver runs one query again, and clears the sink of the other one.
    wait_until(
        lambda: (database.count(), database.count_staged()) == ((numbers.count,) * 2, []),
        seconds=180,
        what="the rows of one query, and no staged ones",
        every=0.5,
    )
    assert node.stream("stopped")["state"] == "stopped"
    node.act_on_stream("continued", "stop")
    wait_until(
        lambda: node.stream("continued")["state"] == "stopped", seconds=120, what="no query runs"
    )

    kill_in_batches(node, session, database, "recovered")
    node.act_on_stream("recovered", "stop")
    wait_until(
        lambda: node.stream("recovered")["state"] == "stopped", seconds=120, what="no query runs"
    )
    recover = [sys.executable, "-m", "headrace.cli", "recover"]
    subprocess.run(recover, env=node.client_environment, check=True, capture_output=True)
    assert database.count_staged() == []
    assert database.count() == (numbers.count,) * 2


def test_queries_at_once_see_the_rows_in_memory_after_a_restart_of_their_query(
    node: NodeProcess, session: str, numbers: Numbers, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    node.run("SAVE STREAM numbers TO memory IDENTIFIED BY kept TRIGGER 1 SECOND", session)

    def count_twice() -> list[Any]:
        """Count the rows with two queries at once, for which the driver needs two sessions."""
        text = f"SELECT n FROM (SELECT count(*) AS n FROM kept), {gate.rows}"
        with gate.closed():
            submitted = [node.submit(text, session)["id"] for _ in range(2)]
            wait_until(
                lambda: {node.statement(each)["state"] for each in submitted} == {"running"},
                what="both queries run",
            )
        assert {node.wait_ended(each)["state"] for each in submitted} == {"success"}
        return [node.result(each)["rows"][0][0] for each in submitted]

    wait_until(lambda: node.rows("SELECT count(*) FROM kept", session) == [["10"]], what="rows")
    assert count_twice() == ["10"] * 2
    node.act_on_stream("kept", "restart")
    numbers.add()
    wait_until(
        lambda: node.rows("SELECT count(*) FROM kept", session) == [["20"]],
        seconds=120,
        what="the rows of the restarted query",
    )
    assert count_twice() == ["20"] * 2
    node.act_on_stream("kept", "stop")
