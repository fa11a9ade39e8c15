"""Secrets on their way to a driver, and what a driver reports about them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState, StreamState
from headrace.model.session import EntryForm, Snapshot, SnapshotEntry
from headrace.model.stream_query import QueryReport
from headrace.store.tables import metadata

MARK = "MARKER"
SECRETS = {name: f"{MARK}-of-{name}" for name in ("lake", "pg", "kafka", "job", "forbidden")}
OWNED = ["pg", "kafka", "job"]
CONF = {
    "spark.sql.catalog.pg.password": "${secret:pg}",
    "spark.sql.catalog.pg.url": "jdbc:x?a=${secret:pg}",
}
STREAM = "CREATE STREAM orders FROM kafka OPTIONS ({}, 'subscribe' = 't')".format(
    "'kafka.bootstrap.servers' = 'h:1', 'kafka.sasl.jaas.config' = 'x ${secret:kafka}'"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files of the secrets."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name, value in SECRETS.items():
        write_secret(secrets, name, value)
    return secrets


def write_secret(folder: Path, name: str, value: str) -> None:
    (folder / name).write_text(value)
    (folder / name).chmod(0o600)


@pytest.fixture
def secret_node(folder: Path, start_node: StartNode) -> InProcessNode:
    return start_secret_node(folder, start_node)


def start_secret_node(folder: Path, start_node: StartNode, **settings: Any) -> InProcessNode:
    provider = {
        "provider": "files",
        "folder": folder,
        "allowed": {name: ["*"] for name in OWNED},
        **settings,
    }
    profile = {"conf": {"spark.hadoop.fs.s3a.secret.key": "${secret:lake}"}}
    return start_node(
        secrets=provider, profiles={"default": profile}, redaction={"pattern": "(?i)cvv"}
    )


def start_failed(node: InProcessNode, conf: dict[str, str]) -> dict[str, Any]:
    """Return the error of a session whose driver cannot be started with this configuration."""
    session_id = node.session(conf=conf)
    # The session may have failed before.
    node.http.post("/api/v1/statements", json={"statement": "SELECT 1", "session": session_id})
    wait_until(lambda: node.session_state(session_id) == "failed", what="the session fails")
    error: dict[str, Any] = node.http.get(f"/api/v1/sessions/{session_id}").json()["error"]
    return error


def test_a_driver_starts_with_values_and_spark_hides_their_keys(
    secret_node: InProcessNode,
) -> None:
    _session, driver = secret_node.start_session(conf=CONF)
    conf = driver.bootstrap.conf

    assert conf["spark.hadoop.fs.s3a.secret.key"] == SECRETS["lake"]
    assert conf["spark.sql.catalog.pg.password"] == SECRETS["pg"]
    assert conf["spark.sql.catalog.pg.url"] == f"jdbc:x?a={SECRETS['pg']}"
    assert driver.bootstrap.secrets == {name: SECRETS[name] for name in ("lake", "pg")}
    pattern = conf["spark.redaction.regex"]
    assert r"(?:^spark\.sql\.catalog\.pg\.url$)" in pattern
    assert "(?:(?i)cvv)" in pattern
    assert driver.bootstrap.redaction_pattern == "(?i)cvv"


def test_a_driver_that_starts_again_has_the_changed_value(
    secret_node: InProcessNode, folder: Path
) -> None:
    session_id, driver = secret_node.start_session(conf=CONF)
    write_secret(folder, "pg", f"{MARK}-of-today")
    secret_node.launcher.report_exit(session_id, "killed")
    secret_node.submit(session=session_id)
    again = secret_node.launcher.connect_driver(session_id, launch=2)

    assert driver.bootstrap.conf["spark.sql.catalog.pg.password"] == SECRETS["pg"]
    assert again.bootstrap.conf["spark.sql.catalog.pg.password"] == f"{MARK}-of-today"


@pytest.mark.parametrize("own", [None, "(?i)own-key"])
def test_spark_always_hides_the_keys_of_secrets_and_those_of_the_operator(
    start_node: StartNode, own: str | None
) -> None:
    conf = {} if own is None else {"spark.redaction.regex": own}
    node = start_node(profiles={"default": {"conf": conf}})
    _session, driver = node.start_session()
    pattern = driver.bootstrap.conf["spark.redaction.regex"]

    assert pattern.endswith("|(?:(?i)own-key)") == (own is not None)
    # Python accepts flags at the start of a pattern only.
    hidden = re.compile(pattern.replace("(?i)", ""), re.IGNORECASE)
    for key in (
        "spark.hadoop.fs.s3a.aws.credentials",
        "spark.hadoop.fs.azure.account.key.x",
        "spark.my.apiKey",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.ssl.keyPassword",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.s3a.access.key",
    ):
        assert hidden.search(key), key
    assert not hidden.search("spark.sql.shuffle.partitions")


@pytest.mark.parametrize(
    ("name", "code"),
    [("missing", "secret_denied"), ("forbidden", "secret_denied"), ("lake", "secret_denied")],
)
def test_a_session_fails_if_its_owner_may_not_use_a_secret(
    secret_node: InProcessNode, name: str, code: str
) -> None:
    error = start_failed(secret_node, {"spark.x": f"${{secret:{name}}}"})

    assert error["code"] == code
    assert f"${{secret:{name}}}" in error["message"]
    assert f"secrets.allowed.{name}" in error["message"]


def test_a_session_fails_if_a_secret_does_not_exist_or_cannot_be_used(
    secret_node: InProcessNode, folder: Path
) -> None:
    (folder / "pg").unlink()
    write_secret(folder, "kafka", f"{MARK}\nsecond line")

    assert start_failed(secret_node, {"spark.x": "${secret:pg}"})["code"] == "secret_not_found"
    assert start_failed(secret_node, {"spark.x": "${secret:kafka}"})["code"] == "invalid_secret"


@pytest.mark.parametrize(
    ("request_body", "code"),
    [
        ({"statement": "SELECT '${secret:pg}'"}, "secret_misplaced"),
        ({"statement": "SELECT 1", "conf": {"spark.x": "${secret:}"}}, "invalid_secret_reference"),
        ({"statement": "SELECT ?", "parameters": [{"value": "${secret:pg}"}]}, "secret_misplaced"),
        (
            {"statement": STREAM.replace("${secret:kafka}", "${secret:${secret:kafka}}")},
            "invalid_secret_reference",
        ),
        (
            {"statement": "CREATE SINK f TO parquet OPTIONS (path 's3a://b/${secret:pg}')"},
            "secret_misplaced",
        ),
    ],
)
def test_a_wrong_reference_is_refused_before_anything_is_stored(
    secret_node: InProcessNode, request_body: dict[str, Any], code: str
) -> None:
    with secret_node.expect_no_changes():
        answer = secret_node.http.post("/api/v1/statements", json=request_body)

    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert "OPTIONS" in answer.json()["hint"] or "NAME" in answer.json()["hint"]


def test_a_session_with_a_wrong_reference_is_refused(secret_node: InProcessNode) -> None:
    for conf, code in (
        ({"spark.x": "${secret:a b}"}, "invalid_secret_reference"),
        ({"headrace.statement.x": "${secret:pg}"}, "secret_misplaced"),
    ):
        answer = secret_node.http.post("/api/v1/sessions", json={"conf": conf})
        assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_a_driver_gets_the_values_that_its_owner_may_use(secret_node: InProcessNode) -> None:
    _session, driver = secret_node.start_session()

    assert driver.find_secrets("pg", "kafka").values == {n: SECRETS[n] for n in ("pg", "kafka")}
    for name in ("forbidden", "lake", "missing"):
        refused = driver.find_secrets("pg", name)
        assert refused.failure is not None
        assert (refused.failure.code, refused.is_permanent) == ("secret_denied", True)
        assert not refused.values


def test_a_provider_that_hangs_fails_the_call_after_its_time_limit(
    folder: Path, start_node: StartNode
) -> None:
    hanging = {"provider": "command", "command": ["sh", "-c", "sleep 600"], "timeout": "200ms"}
    node = start_secret_node(folder, start_node, **hanging)
    error = start_failed(node, {})

    assert error["code"] == "secret_unavailable"
    assert "did not answer within 200ms" in error["message"]


def test_a_driver_whose_lease_is_lost_gets_no_secret(secret_node: InProcessNode) -> None:
    session_id, driver = secret_node.start_session()
    secret_node.launcher.report_exit(session_id, "killed")
    wait_until(
        lambda: secret_node.session_state(session_id) != "running", what="the driver is fenced"
    )

    with pytest.raises(httpx.HTTPStatusError, match="409"):
        driver.find_secrets("pg")


def test_no_secret_of_a_driver_is_stored_shown_or_logged(
    secret_node: InProcessNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    node = secret_node
    ids = report_everything(node)

    for path, text in read_all_routes(node, ids):
        assert MARK not in text, path
    assert MARK not in caplog.text
    for table in metadata.sorted_tables:
        with node.database.read() as tx:
            rows = tx.execute(select(table)).all()
        assert MARK not in repr(rows), table.name
    for file in node.node.settings.layout.path.glob("headrace.db*"):
        assert MARK.encode() not in file.read_bytes(), file
    shown = node.http.get(f"/api/v1/statements/{ids['statement_id'][0]}").json()
    assert shown["error"]["message"] == "cannot connect with ${secret:pg} and ${secret:kafka}"
    assert shown["statement"].endswith("password '${secret:pg}')")
    stream = node.http.get(f"/api/v1/streams/{ids['stream'][0]}").json()
    assert "${secret:kafka}" in stream["last_error"]["message"]
    session = node.http.get(f"/api/v1/sessions/{ids['session'][0]}").json()
    assert session["conf"] == CONF


def report_everything(node: InProcessNode) -> dict[str, list[str]]:
    """Let a driver put values into all that it reports. Return ids by names of path parameters."""
    session_id, driver = node.start_session(conf=CONF, kind="streaming", name="leaky")
    log = node.node.settings.layout.session_log(session_id)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"printed by a user: {SECRETS['pg']} {SECRETS['lake']}")
    view = "CREATE TEMPORARY VIEW v USING jdbc OPTIONS (url 'x', password '${secret:pg}')"
    first = node.submit(view, session=session_id)["id"]
    driver.claim()
    assert driver.find_secrets(*OWNED).values
    failure = Failure(
        code="execution_error",
        message=f"cannot connect with {SECRETS['pg']} and {SECRETS['kafka']}",
        trace=f"at {SECRETS['pg']} with password: {MARK}-not-known",
    )
    body = f"CREATE TEMPORARY VIEW v USING jdbc OPTIONS ('password' '{SECRETS['pg']}')"
    snapshot = Snapshot(
        catalog="spark_catalog",
        namespace=["default"],
        conf={"spark.x": SECRETS["kafka"]},
        views=[SnapshotEntry(name="v", form=EntryForm.SQL, body=body)],
        unsaved=[f"view {SECRETS['pg']}"],
    )
    driver.report_end(first, StatementState.FAILED, failure=failure, snapshot=snapshot)
    for text in (STREAM, "SAVE STREAM orders TO memory IDENTIFIED BY q"):
        started = node.submit(text, session=session_id)["id"]
        driver.claim()
        driver.succeed(started, note=f"read with {SECRETS['kafka']}")
    query = driver.read_streams().queries[0]
    assert "${secret:kafka}" in query.spec.definitions[0]
    report = QueryReport(
        id=query.id,
        generation=query.generation,
        state=StreamState.BACKING_OFF,
        run_id=None,
        failures=1,
        last_batch=None,
        error=failure,
        sequence=1,
    )
    driver.renew(streams=1, queries=[report])
    restored = driver.restore().snapshot
    assert restored is not None
    assert restored.views[0].body.endswith("('password' '${secret:pg}')")
    assert restored.conf == {"spark.x": "${secret:kafka}"}
    return {"session": [session_id], "statement_id": [first], "stream": [query.id]}


def read_all_routes(node: InProcessNode, ids: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield path and body of every GET of the API, and of the log with all errors."""
    paths = node.http.get("/api/v1/openapi.json").json()["paths"]
    for path in (path for path, calls in paths.items() if "get" in calls):
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        for value in ids.get(names[0], ["none"]) if names else [""]:
            target = path.replace(f"{{{names[0]}}}", value) if names else path
            yield target, node.http.get(target, params={"limit": 1000}).text
            yield target, node.http.get(target).text
    yield (
        "trace",
        node.http.get(
            f"/api/v1/statements/{ids['statement_id'][0]}", params={"trace": "true"}
        ).text,
    )
    yield "/metrics", node.http.get("/metrics").text


def test_an_owner_cannot_find_out_the_secret_of_another_owner_by_its_masking(
    secret_node: InProcessNode,
) -> None:
    """Only values that a driver has received are masked in what it reports."""
    _other, other_driver = secret_node.start_session()
    assert other_driver.find_secrets("pg").values
    session_id, driver = secret_node.start_session()

    assert fail_with(secret_node, session_id, driver, SECRETS["pg"]) == SECRETS["pg"]


def fail_with(node: InProcessNode, session_id: str, driver: ScriptedDriver, text: str) -> str:
    """Return the shown message of a statement whose driver reports this message."""
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    failure = Failure(code="execution_error", message=text)
    driver.report_end(statement_id, StatementState.FAILED, failure=failure)
    message: str = node.statement(statement_id)["error"]["message"]
    return message


def test_the_log_of_a_driver_has_no_secret_after_a_restart_of_the_node(
    folder: Path, start_node: StartNode, secret_node: InProcessNode
) -> None:
    session_id, _driver = secret_node.start_session(conf=CONF)
    log = secret_node.node.settings.layout.session_log(session_id)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"{SECRETS['pg']} {SECRETS['lake']}")
    # A node that has just started knows no values.
    secret_node.node.context.secrets._known.clear()

    shown = secret_node.http.get(f"/api/v1/sessions/{session_id}/log").text
    assert shown == "${secret:pg} ${secret:lake}"


@pytest.mark.parametrize("kept", [0, 1, 700, 4800])
def test_a_log_that_is_read_from_its_end_has_no_part_of_a_secret(
    folder: Path, secret_node: InProcessNode, kept: int
) -> None:
    """A value can be longer than what is read before the part that is shown."""
    value = "ä".join([MARK] * 800)
    write_secret(folder, "pg", value)
    session_id, _driver = secret_node.start_session(conf=CONF)
    log = secret_node.node.settings.layout.session_log(session_id)
    log.parent.mkdir(parents=True, exist_ok=True)
    end = "\n" + "y" * 99
    log.write_text("x" * 9000 + value + end)
    for shift in range(8):
        size = len(value.encode()) - kept - shift - 4096
        tail = max(size, 0) + len(end)
        shown = secret_node.http.get(f"/api/v1/sessions/{session_id}/log", params={"tail": tail})
        assert shown.text.endswith(end)
        assert "M" not in shown.text, (tail, shown.text[:100])
        assert "R" not in shown.text, (tail, shown.text[:100])


@pytest.mark.parametrize("before", [0, 990, 1000])
def test_the_reason_for_the_end_of_a_driver_has_no_secret(
    secret_node: InProcessNode, caplog: pytest.LogCaptureFixture, before: int
) -> None:
    caplog.set_level(logging.DEBUG)
    session_id, driver = secret_node.start_session(conf=CONF)
    statement_id = secret_node.submit("INSERT INTO t VALUES (1)", session=session_id)["id"]
    driver.claim()
    reason = f"exit status 1: {'x' * before} {SECRETS['pg']} {'y' * 5000} token=of-a-user"
    secret_node.launcher.report_exit(session_id, reason)
    error = secret_node.statement(statement_id, wait_timeout="60s")["error"]
    assert error["code"] == "driver_lost"
    assert "exit status 1: " in error["message"]
    assert ("${secret:pg}" in error["message"]) == (before == 0)
    events = secret_node.http.get("/api/v1/events", params={"limit": 1000}).text
    for text in (str(error), events, caplog.text):
        assert MARK[:3] not in text
        assert "of-a-user" not in text


def test_a_refused_launch_is_shown_without_secrets(
    secret_node: InProcessNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret_node.launcher.refusal = f"the backend refuses {SECRETS['pg']} and token=of-a-user"
    message = start_failed(secret_node, CONF)["message"]
    assert message.startswith("the backend refuses ${secret:pg} and token=")
    assert MARK not in caplog.text
    assert "of-a-user" not in message + caplog.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("CREATE TABLE b USING jdbc OPTIONS (password 'MARKER')", "password '*****"),
        ("CREATE TABLE b USING jdbc OPTIONS (card.CVV 'MARKER')", "card.CVV '*****"),
        ("SET spark.hadoop.fs.s3a.secret.key=MARKER", "secret.key=*****"),
        ("SELECT * FROM books WHERE author = 'Ada'", "author = 'Ada'"),
    ],
)
def test_a_secret_that_a_user_has_typed_is_in_no_response(
    secret_node: InProcessNode, text: str, shown: str
) -> None:
    session_id, driver = secret_node.start_session()
    statement_id = secret_node.submit(text, session=session_id)["id"]
    assert driver.claim().text == text
    failure = Failure(code="execution_error", message=f"cannot run {text}", trace=text)
    driver.report_end(statement_id, StatementState.FAILED, failure=failure)

    path = f"/api/v1/statements/{statement_id}"
    one = secret_node.http.get(path, params={"trace": "true"}).json()
    assert shown in one["statement"]
    listed = secret_node.http.get("/api/v1/statements").text
    for answer in (str(one), listed, secret_node.http.get("/api/v1/events").text):
        assert MARK not in answer


def test_rows_are_not_changed(secret_node: InProcessNode) -> None:
    session_id, driver = secret_node.start_session(conf=CONF)
    statement_id = secret_node.submit(session=session_id)["id"]
    driver.claim()
    driver.succeed(statement_id, inline_result([("x", "string")], [[SECRETS["pg"]]]))

    result = secret_node.http.get(f"/api/v1/statements/{statement_id}/result").json()
    assert result["rows"] == [[SECRETS["pg"]]]
