"""Secrets stay where they must be: a marker in each place that takes a secret is searched.

The store, and the files that a driver reads at its start, must hold the secrets.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from psycopg import sql
from tests.support.files import find_matching
from tests.support.jobs import CountingJob
from tests.support.lakes import lake_jars
from tests.support.node import NodeProcess
from tests.support.postgres import PostgresServer, running_server
from tests.support.processes import kill_with_descendants, processes_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

MARK = "MARKER"
"""Part of every secret. The rest of a secret names its place."""
TYPED = f"{MARK}-typed"
"""A secret in the text of a statement, which the store keeps as typed."""
JDBC = f"jdbc:postgresql://u:{TYPED}-url@127.0.0.1:1/x?password={TYPED}-parameter"
OPTIONS = f"('url' = '{JDBC}', 'password' = '{TYPED}-option', 'dbtable' = 't')"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "event-log").mkdir()
    conf = {
        "spark.hadoop.fs.s3a.secret.key": f"{MARK}-profile",
        "spark.hadoop.some.credential": f"{MARK}-credential",
        "spark.hadoop.some.api.key": f"{MARK}-api",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "event-log").as_uri(),
    }
    profile = {"conf": conf}
    process = NodeProcess(
        folder / "home",
        PROFILES=json.dumps({"default": profile}),
        LOG_LEVEL="debug",
    )
    yield process
    process.close()


@pytest.fixture(scope="module")
def used(node: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Put a marker into each place, and return ids by the names of path parameters."""
    session = node.session(
        name="secrets",
        kind="streaming",
        conf={"spark.hadoop.fs.azure.account.key.a": f"{MARK}-session"},
    )
    broken = node.session(jars=[f"http://u:{MARK}-jar@127.0.0.1:1/x.jar"])
    job = CountingJob(node, tmp_path_factory.mktemp("job"))
    # A run without input is proven only when its time limit has passed.
    job.replace_file()
    job.manifest["spark-properties"] = {
        "spark.sql.shuffle.partitions": "1",
        "spark.hadoop.fs.s3a.access.key": "${SECRET}",
    }
    statement = node.run(
        "SHOW TABLES",
        session,
        conf={"spark.hadoop.fs.s3a.session.token": f"{MARK}-statement"},
        parameters=[],
    )
    assert statement["state"] == "success"
    # Errors, which Spark and PySpark log with the text of the statement.
    for text in (
        f"SELECT * FROM nowhere OPTIONS ('password' = '{TYPED}')",
        f"CREATE TABLE typed USING jdbc OPTIONS {OPTIONS}",
        f"SELECT nothing, map('password', '{TYPED}') FROM range(1)",
    ):
        assert node.run(text, session)["state"] == "failed"
    for text in ("CREATE STREAM ticks FROM rate", f"CREATE SINK db TO jdbc OPTIONS {OPTIONS}"):
        assert node.run(text, session)["state"] == "success"
    node.run(
        f"SAVE STREAM ticks TO db IDENTIFIED BY leaky OPTIONS ('password' = '{TYPED}')", session
    )
    streams = node.http.get("/api/v1/streams").json()["items"]
    deployed = job.apply(job.plan(variables={"SECRET": f"{MARK}-manifest"}))
    assert deployed["state"] == "applied", deployed
    wait_until(lambda: node.session_state(broken) == "failed", seconds=240, what="no jar, no start")
    return {
        "session": [session, broken, "jobs-default"],
        "statement_id": [statement["id"]],
        "stream": [stream["id"] for stream in streams],
        "name": [job.name],
        "deployment": [deployed["id"]],
    }


def read_all(node: NodeProcess, ids: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and body of every GET of the API."""
    paths = node.http.get("/api/v1/openapi.json").json()["paths"]
    for path in (path for path, calls in paths.items() if "get" in calls):
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        values = ids.get(names[0], ["none"]) if names else [""]
        for value in values:
            target = path.replace(f"{{{names[0]}}}", value) if names else path
            yield target, node.http.get(target).text
    yield "/metrics", node.http.get("/metrics").text
    yield "/api/v1/events", node.http.get("/api/v1/events", params={"limit": 1000}).text


def test_no_response_contains_a_secret(node: NodeProcess, used: dict[str, Any]) -> None:
    seen = set()
    for path, text in read_all(node, used):
        seen.add(path)
        sought = f"{MARK}-"
        assert sought not in text, (path, text[max(0, text.find(sought) - 200) :][:400])
    assert f"/api/v1/sessions/{used['session'][0]}" in seen
    assert f"/api/v1/streams/{used['stream'][0]}" in seen
    shown = node.http.get("/api/v1/sessions/jobs-default").json()["conf"]
    assert shown == {"spark.hadoop.fs.s3a.access.key": "*********(redacted)"}


def test_no_file_and_no_argument_contains_a_secret(node: NodeProcess, used: dict[str, Any]) -> None:
    folder = node.home.parent
    events = [file for file in (folder / "event-log").rglob("*") if file.is_file()]
    assert any(b"spark.hadoop.some.credential" in file.read_bytes() for file in events)
    for file, found in read_files(folder):
        if holds_secrets(file, node.home):
            continue
        content = found
        if file in events:
            # Spark writes errors to it as they are, and they can quote what a user has typed.
            content = content.replace(f"{TYPED})".encode(), b"").replace(f"{TYPED}'".encode(), b"")
        at = content.find(f"{MARK}-".encode())
        assert at < 0, (file, content[max(0, at - 300) : at + 200])
    assert MARK not in read_arguments(node)


def read_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the files below a folder with their contents. Running processes remove some."""
    for file in sorted(find_matching(folder, "*")):
        with contextlib.suppress(FileNotFoundError):
            if file.is_file():
                yield file, file.read_bytes()


def read_arguments(node: NodeProcess) -> str:
    """Return the arguments of all processes of a node. Some may end meanwhile."""
    arguments = list[str]()
    for process in processes_of(node.home):
        with contextlib.suppress(psutil.NoSuchProcess):
            arguments += process.cmdline()
    assert arguments
    return " ".join(arguments)


def holds_secrets(file: Path, home: Path) -> bool:
    """Return whether a file must hold secrets: the store, and what a driver reads at its start."""
    return file.name.startswith("headrace.db") or (
        (file.suffix in {".properties", ".conf"} and "drivers" in file.parts)
        and file.stat().st_mode & 0o777 == 0o600
    )


PASSWORD, CHANGED = f"{MARK}-today", f'{MARK}-it\'s \\"tomorrow\\" ä'
USER, DRIVER = "reader", "org.postgresql.Driver"


class GuardedDatabase:
    """A database whose user needs a password, which is the secret `pg` of a node."""

    def __init__(self, server: PostgresServer, secrets: Path) -> None:
        self._url, self._file = server.url(), secrets / "pg"
        self.jdbc = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
        access = Path(self.execute("SHOW data_directory")[0]) / "pg_hba.conf"
        rule = f"host all {USER} 127.0.0.1/32 scram-sha-256\n"
        access.write_text(rule + access.read_text())
        self.execute("SELECT pg_reload_conf()")
        self.execute(f"CREATE USER {USER} SUPERUSER")
        self.execute("CREATE TABLE numbers AS SELECT 7 AS n")
        self.execute("CREATE TABLE ticks (n bigint)")

    def execute(self, text: str | sql.Composed) -> Any:
        with psycopg.connect(self._url, autocommit=True) as connection:
            cursor = connection.execute(text)
            return cursor.fetchone() if cursor.description else None

    def change_password(self, password: str) -> None:
        """Change the password in the database and in the file of the secret, and end sessions."""
        self._file.write_text(password)
        self._file.chmod(0o600)
        change = sql.SQL(f"ALTER USER {USER} PASSWORD {{}}")
        self.execute(change.format(sql.Literal(password)))
        self.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'"
        )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[GuardedDatabase]:
    (tmp_path / "secrets").mkdir()
    with running_server() as server:
        yield GuardedDatabase(server, tmp_path / "secrets")


@pytest.fixture
def secret_node(tmp_path: Path) -> Iterator[NodeProcess]:
    secrets = {"provider": "files", "folder": str(tmp_path / "secrets"), "allowed": {"*": ["*"]}}
    process = NodeProcess(tmp_path / "home", SECRETS=json.dumps(secrets), LOG_LEVEL="debug")
    yield process
    process.close()


@pytest.mark.catalogs
def test_drivers_use_a_secret_and_its_changes_and_keep_it_out_of_all_texts(
    database: GuardedDatabase, secret_node: NodeProcess, tmp_path: Path
) -> None:
    node = secret_node
    database.change_password(PASSWORD)
    catalog = "spark.sql.catalog.pg"
    url = f"{database.jdbc}?user={USER}&password=${{secret:pg}}"
    conf = {
        "spark.jars": str(lake_jars("postgresql")[0]),
        catalog: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{catalog}.url": database.jdbc,
        f"{catalog}.driver": DRIVER,
        f"{catalog}.user": USER,
        f"{catalog}.password": "${secret:pg}",
        f"{catalog}.applicationNote": "a ${secret:pg} in a key that names no secret",
    }
    options = f"driver '{DRIVER}', user '{USER}', url '{database.jdbc}', password '${{secret:pg}}'"
    session = node.session(name="secrets", kind="streaming", conf=conf)

    assert node.rows("SELECT n FROM pg.public.numbers", session) == [[7]]
    assert node.run(make_view("v", options, "numbers"), session)["state"] == "success"
    assert node.rows("SELECT n FROM v", session) == [[7]]
    in_url = f"driver '{DRIVER}', url '{url}'"
    assert node.run(make_view("w", in_url, "numbers"), session)["state"] == "success"
    shown = [
        node.rows(text, session)
        for text in (
            f"SET {catalog}.password",
            f"SET {catalog}.applicationNote",
            "EXPLAIN EXTENDED SELECT * FROM v JOIN w USING (n)",
            "EXPLAIN FORMATTED SELECT * FROM pg.public.numbers",
            f"EXPLAIN EXTENDED CREATE TABLE t USING jdbc OPTIONS (url 'x', password '{TYPED}')",
        )
    ]
    assert MARK not in str(shown)
    # The error of the database contains what the driver has received.
    failed = node.run(make_view("x", options, '"${secret:pg}"'), session)
    assert failed["state"] == "failed"
    assert 'relation "${secret:pg}" does not exist' in failed["error"]["message"]
    # The message of the JVM is longer than a node keeps, and is cut inside a value.
    long_name = "${secret:pg}" * 8000
    failed_long = node.run(make_view("y", f"driver '{long_name}', url 'x'", "t"), session)
    assert failed_long["error"]["message"].endswith("… [cut]")
    assert "MARK" not in failed_long["error"]["message"]
    sink = f"CREATE SINK db TO jdbc OPTIONS ({options}, dbtable 'ticks')"
    for text in (
        "DROP VIEW w",
        "CREATE STREAM ticks FROM rate OPTIONS ('rowsPerSecond' = '5')",
        "CREATE STREAM n AS SELECT value AS n FROM STREAM(ticks)",
        sink,
        "SAVE STREAM n TO db IDENTIFIED BY writer TRIGGER 1 SECOND",
    ):
        assert node.run(text, session)["state"] == "success", text
    wait_until(lambda: count_ticks(database) > 0, seconds=120, what="rows in the database")

    database.change_password(CHANGED)
    node.act_on_stream("writer", "restart")
    rows = count_ticks(database)
    wait_until(lambda: count_ticks(database) > rows, seconds=120, what="more rows")
    kill_with_descendants(psutil.Process(node.describe_session(session)["driver"]["pid"]))
    assert node.rows("SELECT n FROM pg.public.numbers", session) == [[7]]
    assert node.rows("SELECT n FROM v", session) == [[7]]
    assert node.http.get(f"/api/v1/sessions/{session}").json()["lost"] == []

    ids = {"session": [session], "stream": ["writer"], "statement_id": [failed["id"]]}
    for path, body in read_all(node, ids):
        assert MARK not in body, (path, body[max(0, body.find(MARK) - 200) :][:400])
    for path, body in read_spark_ui(node, session):
        assert MARK not in body, (path, body[max(0, body.find(MARK) - 200) :][:400])
    # The files of its checkpoint come and go while it runs.
    node.act_on_stream("writer", "pause")
    wait_until(lambda: node.http.get("/api/v1/streams/writer").json()["state"] == "paused")
    for file, content in read_files(tmp_path / "home"):
        # The text of a statement is stored as it was typed.
        found = content.replace(TYPED.encode(), b"").find(f"{MARK}-".encode())
        assert found < 0, (file, content[max(0, found - 300) :][:500])
    assert MARK not in read_arguments(node)


def read_spark_ui(node: NodeProcess, session: str) -> Iterator[tuple[str, str]]:
    """Yield address and body of pages of Spark's UI, and of its API."""
    driver = node.describe_session(session)["driver"]
    api = f"api/v1/applications/{driver['application_id']}"
    pages = ("environment/", "SQL/", "jobs/", f"{api}/environment", f"{api}/sql?details=true")
    for page in pages:
        # A page of Spark with a cold JVM takes several seconds beside other tests.
        answer = httpx.get(f"{driver['ui_url']}/{page}", follow_redirects=True, timeout=60)
        assert answer.is_success, page
        yield page, answer.text


def make_view(name: str, options: str, table: str) -> str:
    return f"CREATE TEMPORARY VIEW {name} USING jdbc OPTIONS ({options}, dbtable '{table}')"


def count_ticks(database: GuardedDatabase) -> int:
    count: int = database.execute("SELECT count(*) FROM ticks")[0]
    return count
