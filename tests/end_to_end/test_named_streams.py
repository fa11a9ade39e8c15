"""Named streams in the statements of a session, and PSTL's pattern of a job file.

The pattern: CREATE STREAM, CREATE TEMPORARY VIEW … AS SELECT … FROM stream, SAVE STREAM view.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.node import NodeProcess
from tests.support.processes import kill_with_descendants
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

AVAILABLE = "SET headrace.ctas.trigger = available now"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("node")
    process = NodeProcess(folder / "home", LEASE__DURATION="15s", LEASE__RENEW="1s")
    yield process
    process.close()


@pytest.fixture(scope="module")
def session(node: NodeProcess) -> str:
    """Return an interactive session."""
    session_id = node.session(name="reader")
    node.wait_running(session_id)
    return session_id


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of JSON files with the numbers 0 to 9."""
    path = tmp_path_factory.mktemp("numbers")
    add_numbers(path, 0)
    return path


def add_numbers(folder: Path, first: int) -> None:
    """Add a file with the next ten numbers, which appears whole."""
    hidden = folder / f".{first}"
    hidden.write_text("\n".join(json.dumps({"n": n}) for n in range(first, first + 10)))
    hidden.rename(folder / f"{first}.json")


def define(name: str, folder: Path) -> str:
    return f"CREATE OR REPLACE STREAM {name} (n INT) FROM json OPTIONS ('path' = '{folder}')"


def kill_driver(node: NodeProcess, session: str) -> None:
    driver = psutil.Process(node.describe_session(session)["driver"]["pid"])
    kill_with_descendants(driver)


def check(node: NodeProcess, text: str, session: str) -> None:
    statement = node.run(text, session)
    assert statement["state"] == "success", (text, statement["error"])


def run_command(node: NodeProcess, *arguments: str) -> None:
    """Run a command of the shell, which succeeds."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments],
        env=node.client_environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def count(node: NodeProcess, session: str, path: str) -> int:
    return int(node.rows(f"SELECT count(DISTINCT n) FROM parquet.`{path}`", session)[0][0])


def test_statements_of_a_session_know_the_streams_of_their_owner(
    node: NodeProcess, session: str, folder: Path
) -> None:
    check(node, define("s_numbers", folder), session)
    check(node, "CREATE STREAM s_evens AS SELECT * FROM s_numbers WHERE n % 2 = 0", session)
    check(node, AVAILABLE, session)
    # CTAS, over a stream and over a view over a stream; EXPLAIN, DESCRIBE; scripts.
    check(node, "CREATE TABLE s_copy AS SELECT n FROM s_evens", session)
    check(node, "CREATE TEMPORARY VIEW s_view AS SELECT n + 1 AS n FROM S_Evens", session)
    check(node, "CREATE TABLE s_view_copy AS SELECT n FROM s_view WHERE n > 3", session)
    check(node, "EXPLAIN SELECT n FROM s_numbers", session)
    check(node, "EXECUTE IMMEDIATE 'CREATE TEMPORARY VIEW s_two AS SELECT n FROM s_evens'", session)
    script = "BEGIN CREATE TEMPORARY VIEW s_three AS SELECT n FROM s_numbers; END"
    check(node, script, session)

    assert node.rows("SELECT count(*), sum(n) FROM s_copy", session) == [["5", "20"]]
    assert node.rows("SELECT count(*), sum(n) FROM s_view_copy", session) == [["3", "21"]]
    assert node.rows("DESCRIBE s_numbers", session)[0][:2] == ["n", "int"]
    assert node.rows("DESCRIBE s_three", session)[0][:2] == ["n", "int"]
    # The streams are no views of the session.
    assert {row[1] for row in node.rows("SHOW VIEWS", session)} == {"s_view", "s_two", "s_three"}
    shown = node.rows("SHOW TABLES", session)
    assert not {"s_numbers", "s_evens"} & {row[1] for row in shown}


PERMANENT = ("INVALID_TEMP_OBJ_REFERENCE", "42K0F", "CREATE TEMPORARY VIEW")
NO_TABLE = ("TABLE_OR_VIEW_NOT_FOUND", "42P01", "is a stream, and the statement needs a table")
FUNCTION = ("TABLE_OR_VIEW_NOT_FOUND", "42P01", "A function cannot read r_numbers")
SUBQUERY = ("INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY", "42823", "SAVE STREAM")
ENDLESS = ("_LEGACY_ERROR_TEMP_3102", None, "SAVE STREAM")
REFUSED = {
    "CREATE VIEW r_kept AS SELECT n FROM r_numbers": PERMANENT,
    "CREATE OR REPLACE VIEW r_kept AS WITH a AS (TABLE R_Numbers) TABLE a": PERMANENT,
    "CREATE VIEW r_kept AS SELECT n FROM r_view": PERMANENT,
    "ALTER VIEW r_permanent AS SELECT n FROM r_numbers": PERMANENT,
    "EXECUTE IMMEDIATE 'CREATE VIEW r_kept AS SELECT n FROM r_numbers'": PERMANENT,
    "BEGIN CREATE VIEW r_kept AS SELECT n FROM r_numbers; END": PERMANENT,
    "CREATE FUNCTION r_f() RETURNS INT RETURN (SELECT max(n) FROM r_numbers)": FUNCTION,
    "CREATE TEMPORARY FUNCTION r_f() RETURNS TABLE (n INT) RETURN TABLE r_numbers": FUNCTION,
    "SELECT * FROM r_numbers": ENDLESS,
    "SELECT * FROM r_view": ENDLESS,
    "INSERT INTO r_table SELECT n FROM r_numbers": ENDLESS,
    "INSERT OVERWRITE r_table SELECT n FROM r_view": ENDLESS,
    # Spark's error of a statement in a script has no condition.
    "BEGIN INSERT INTO r_table SELECT n FROM r_numbers; END": (None, None, "SAVE STREAM"),
    "CACHE TABLE r_cached AS SELECT n FROM r_numbers": ENDLESS,
    "DELETE FROM r_table WHERE n IN (TABLE r_numbers)": SUBQUERY,
    "SELECT (SELECT max(n) FROM r_numbers)": SUBQUERY,
    "CACHE TABLE r_numbers": NO_TABLE,
    "ANALYZE TABLE r_numbers COMPUTE STATISTICS": NO_TABLE,
    "SHOW CREATE TABLE r_numbers": NO_TABLE,
    "ALTER VIEW r_numbers AS SELECT 1 AS n": NO_TABLE,
    "DROP TABLE r_numbers": NO_TABLE,
    "DROP VIEW r_numbers": NO_TABLE,
    "INSERT INTO r_numbers VALUES (1)": NO_TABLE,
    "DELETE FROM r_numbers": NO_TABLE,
    "CREATE TEMPORARY VIEW r_numbers AS SELECT n FROM r_numbers": (
        *(None, None),
        "Choose another name",
    ),
    "SAVE STREAM r_flat TO noop": (None, None, "FROM STREAM t"),
}


def test_what_a_stream_does_not_allow_is_refused_with_what_to_write(
    node: NodeProcess, session: str, folder: Path
) -> None:
    check(node, define("r_numbers", folder), session)
    check(node, "CREATE TEMPORARY VIEW r_view AS SELECT n FROM r_numbers", session)
    check(node, "CREATE TEMPORARY VIEW r_flat AS SELECT 1 AS n", session)
    check(node, "CREATE VIEW r_permanent AS SELECT 1 AS n", session)
    check(node, "CREATE TABLE r_table (n INT) USING parquet", session)
    for text, (condition, sqlstate, advice) in REFUSED.items():
        error = node.run(text, session)["error"]
        assert error is not None, text
        assert (error["code"], advice in error["message"]) == ("invalid_stream", True), (
            text,
            error,
        )
        assert (error["condition"], error["sqlstate"]) == (condition, sqlstate), (text, error)
    permanent = node.run("CREATE VIEW r_kept AS\n  SELECT n FROM r_numbers", session)["error"]
    assert (permanent["line"], permanent["column"]) == (2, 17)
    assert node.rows("TABLE r_permanent", session) == [[1]]
    assert node.rows("SELECT count(*) FROM r_table", session) == [["0"]]
    statement = node.run("SELECT * FROM nowhere", session)
    assert statement["error"]["condition"] == "TABLE_OR_VIEW_NOT_FOUND"
    saved = node.run("SAVE STREAM nowhere TO noop", session)["error"]
    assert (saved["code"], saved["condition"]) == ("source_not_found", "TABLE_OR_VIEW_NOT_FOUND")


def test_tables_and_temporary_views_come_before_a_stream_with_their_name(
    node: NodeProcess, session: str, folder: Path
) -> None:
    check(node, "CREATE TABLE p_rows AS SELECT 1000 AS n", session)
    check(node, define("p_rows", folder), session)
    check(node, "CREATE STREAM p_more AS SELECT n FROM p_rows", session)
    check(node, AVAILABLE, session)
    # The stream p_more reads the stream p_rows, the statement itself reads the table.
    query = "SELECT m.n FROM p_more AS m JOIN p_rows AS r ON m.n < r.n"
    check(node, f"CREATE TABLE p_joined AS {query}", session)

    assert node.rows("SELECT n FROM p_rows", session) == [[1000]]
    assert node.rows("SELECT count(*) FROM p_joined", session) == [["10"]]


def test_a_view_over_a_stream_is_saved_and_outlives_drivers_and_definitions(
    node: NodeProcess, tmp_path: Path
) -> None:
    numbers = tmp_path / "numbers"
    numbers.mkdir()
    add_numbers(numbers, 0)
    session = node.session(name="maker")
    check(node, "CREATE DATABASE IF NOT EXISTS other", session)
    check(node, define("v_numbers", numbers), session)
    check(node, "SET spark.sql.ansi.enabled = false", session)
    check(node, "CREATE TABLE v_factor AS SELECT 10 AS f", session)
    check(
        node,
        "CREATE TEMPORARY VIEW v_first (m) AS SELECT n + CAST('x' AS INT) IS NULL FROM v_numbers",
        session,
    )
    check(
        node,
        "CREATE TEMPORARY VIEW v_scaled AS SELECT n * f AS n FROM v_numbers, v_factor",
        session,
    )
    check(node, "USE other", session)
    check(node, "SET spark.sql.ansi.enabled = true", session)
    kill_driver(node, session)
    # The next driver restores the views. The query runs in a session of its own.
    saved = node.run("SAVE STREAM v_scaled TO parquet TRIGGER 1 SECOND", session)
    assert saved["note"].startswith("The query writes to "), saved
    assert saved["note"].endswith("headrace stream show v_scaled")
    check(node, "SAVE STREAM v_first TO parquet IDENTIFIED BY v_first_kept", session)
    query = node.stream("v_scaled")
    assert query["session_id"] != session
    for name in ("v_scaled", "v_first_kept"):
        # The driver of the queries starts first.
        wait_until(lambda: node.stream(name)["last_batch"] is not None, seconds=240, what=name)  # noqa: B023
    check(node, "DROP VIEW v_scaled", session)
    check(node, "DROP STREAM v_numbers", session)
    kill_driver(node, query["session_id"])
    add_numbers(numbers, 10)
    wait_until(
        lambda: count(node, session, query["path"]) == 20, seconds=240, what="all rows", every=1.0
    )
    kept = node.stream("v_first_kept")["path"]
    rows = node.rows(f"SELECT DISTINCT m FROM parquet.`{kept}`", session)
    for name in ("v_scaled", "v_first_kept"):
        node.act_on_stream(name, "stop")

    assert rows == [[True]]


FILE = """
-- A job file as PSTL's users write it.
CREATE STREAM {p}_foo (n INT) FROM json OPTIONS ('path' = '{folder}');
CREATE TEMPORARY VIEW {p}_bar AS SELECT n FROM {p}_foo WHERE n >= 5;
CREATE TEMPORARY VIEW {p}_baz AS SELECT n + 100 AS n FROM {p}_bar;
SAVE STREAM {p}_bar TO PARQUET;
SAVE STREAM {p}_baz TO PARQUET IDENTIFIED BY {p}_baz_parquet;
"""


def test_a_job_file_of_pstl_runs_from_the_command_line_and_as_the_script_of_a_job(
    node: NodeProcess, session: str, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "job.sql"
    file.write_text(FILE.format(p="f", folder=folder))
    run_command(node, "sql", "-f", str(file))
    script = "\n".join(f"  {line}" for line in FILE.format(p="j", folder=folder).splitlines())
    job = tmp_path / "pattern.yaml"
    job.write_text(f"name: pattern\nscript: |\n{script}\n")
    run_command(node, "deploy", str(job), "--yes")

    queries = {
        "f_bar": (5, 35), "f_baz_parquet": (5, 535),
        "pattern.j_bar": (5, 35), "pattern.j_baz_parquet": (5, 535),
    }  # fmt: skip
    for name in queries:
        wait_until(lambda: node.stream(name)["last_batch"] is not None, what=name, seconds=240)  # noqa: B023
    kill_driver(node, node.stream("pattern.j_bar")["session_id"])
    for name, expected in queries.items():
        path = node.stream(name)["path"]
        found = node.rows(f"SELECT count(*), sum(n) FROM parquet.`{path}`", session)
        assert found == [[str(value) for value in expected]], name
    for name in queries:
        wait_until(lambda: node.stream(name)["state"] == "running", what=name, seconds=240)  # noqa: B023
        node.act_on_stream(name, "stop")
