"""Statements on streams that a node refuses before anything is started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.in_process_node import InProcessNode

from headrace.model.lifecycle import StreamState
from headrace.model.stream_query import QueryReport
from headrace.store.streams import stream_queries

KAFKA = "'kafka.bootstrap.servers' = 'k:9092', 'subscribe' = 't'"

INVALID = {
    # Names.
    "CREATE STREAM s FROM ''": ("The name of the provider is empty", None, 22),
    "CREATE SINK k TO ' '": ("The name of the provider is empty", None, 18),
    "SAVE STREAM t TO ''": ("The name of the provider is empty", None, 18),
    "SAVE STREAM t TO table": ("Expected: the name of a table", None, 23),
    "CREATE SINK json TO json": ("json is the name of a provider", None, 13),
    "CREATE STREAM db.s FROM rate": ("can have qualified names", None, 15),
    "CREATE OR REPLACE STREAM `or`.s AS SELECT 1": ("can have qualified names", None, 26),
    "CREATE SINK a.b.k TO noop": ("This statement defines `a`.`b`.`k`", None, 13),
    # Options.
    "CREATE STREAM s FROM rate OPTIONS ('rowPerSecond' = '1')": (
        "rate has no option rowPerSecond",
        "Did you mean rowsPerSecond?",
        36,
    ),
    "SAVE STREAM t TO json OPTIONS ('pth' = 'x')": ("json has no option pth", "path", 32),
    "SAVE STREAM t TO memory OPTIONS ('checkpointLocation' = '/x')": (
        "memory has no option checkpointLocation",
        None,
        34,
    ),
    "CREATE STREAM s FROM kafka OPTIONS ('subscribe' = 't')": (
        "kafka needs the option kafka.bootstrap.servers",
        None,
        None,
    ),
    f"CREATE STREAM s FROM kafka OPTIONS ({KAFKA}, 'assign' = 'x')": (
        "kafka takes only one of the options assign or subscribe or subscribePattern",
        None,
        None,
    ),
    "SAVE STREAM t TO jdbc OPTIONS ('url' = 'jdbc:x')": (
        "jdbc needs the option dbtable",
        None,
        None,
    ),
    f"CREATE STREAM s (a INT) FROM kafka OPTIONS ({KAFKA}, 'format' = 'xml')": (
        "The option format is 'xml'",
        "json, csv, avro, raw",
        113,
    ),
    f"CREATE STREAM s FROM kafka OPTIONS ({KAFKA}, 'format' = 'json')": (
        "The format json needs declared columns",
        None,
        105,
    ),
    # Columns.
    "CREATE STREAM s (a INT) FROM rate": ("rate has columns of its own", None, 18),
    "CREATE STREAM s FROM json OPTIONS ('path' = '/x')": ("json needs declared columns", None, 22),
    "SAVE STREAM t (a INT, b INT) TO json PARTITIONED ON (c)": (
        "PARTITIONED ON names the column c",
        "Columns: a, b",
        54,
    ),
    "CREATE SINK k (a INT) TO json PARTITIONED ON (b)": (
        "PARTITIONED ON names the column b",
        "Columns: a",
        47,
    ),
    "SAVE STREAM t TO kafka PARTITIONED ON (a) OPTIONS ('kafka.bootstrap.servers' = 'k:1')": (
        "The sink kafka has no partitions",
        "json, parquet",
        24,
    ),
    # Output modes and triggers.
    "SAVE STREAM t TO parquet OUTPUT MODE COMPLETE": (
        "parquet does not support the output mode COMPLETE",
        "Supported: APPEND",
        38,
    ),
    "SAVE STREAM t TO noop OUTPUT MODE ALL": ("Expected: an output mode", "APPEND", 35),
    "SAVE STREAM t TO json TRIGGER CONTINUOUS 1 SECOND": (
        "json does not support TRIGGER CONTINUOUS",
        "kafka",
        31,
    ),
    "SAVE STREAM t TO noop TRIGGER 5 FORTNIGHTS": ("Expected: a unit", "SECONDS", 33),
    "SAVE STREAM t TO noop TRIGGER 5": ("Expected: a unit", "SECONDS", 32),
    "SAVE STREAM t TO noop TRIGGER -5 SECONDS": ("a number", "ONCE", 31),
}

POLICIES = {
    "'headrace.retry.min.backoff' = '5'": "Allowed values: an integer and a unit, for example 10s",
    "'headrace.retry.min.backoff' = '-5s'": "Allowed values: an integer and a unit",
    "'headrace.retry.min.backoff' = '1 fortnight'": "Allowed values: an integer and a unit",
    "'pstl.retry.max.backoff' = '100ms'": "is shorter than the shortest",
    "'headrace.retry.random.factor' = '-0.1'": "Allowed values: numbers from 0",
    "'headrace.retry.max.attempts' = '-1'": "integers from 0",
    "'headrace.retry.enabled' = 'yes'": "Allowed values: true, false",
    "'headrace.retry.backoff' = '1s'": "headrace.retry.backoff is not an option of Headrace. Did",
}


@pytest.mark.parametrize("text", INVALID)
def test_an_invalid_statement_is_refused_with_what_is_allowed(
    node: InProcessNode, text: str
) -> None:
    message, allowed, column = INVALID[text]
    with node.expect_no_changes():
        response = node.http.post("/api/v1/statements", json={"statement": text})
    problem = response.json()

    assert response.status_code == 400, problem
    assert problem["code"] == "invalid_statement"
    assert message in problem["detail"]
    assert allowed is None or allowed in problem["detail"]
    assert problem.get("column") == column
    if "OUTPUT MODE COMPLETE" in text:
        spark = ("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE", "42KDE")
        assert (problem["condition"], problem["sqlstate"]) == spark


def test_a_source_that_only_has_batches_cannot_be_continuous(
    node: InProcessNode, session: str
) -> None:
    text = "CREATE STREAM batches FROM `rate-micro-batch` OPTIONS ('rowsPerBatch' = '1')"
    _define(node, session, text)
    save = "SAVE STREAM batches TO noop TRIGGER CONTINUOUS 1 SECOND"
    with node.expect_no_changes():
        response = node.http.post("/api/v1/statements", json={"statement": save})
    problem = response.json()

    assert (response.status_code, problem["code"], problem["column"]) == (
        400,
        "invalid_statement",
        37,
    )
    assert "rate-micro-batch does not support TRIGGER CONTINUOUS" in problem["detail"]
    assert "kafka, rate, socket" in problem["detail"]


def test_a_statement_that_a_driver_needs_again_and_again_has_a_limit(node: InProcessNode) -> None:
    text = f"SAVE STREAM t TO noop OPTIONS ('headrace.retry.enabled' = '{'x' * 65_536}')"
    response = node.http.post("/api/v1/statements", json={"statement": text})

    assert response.status_code == 400
    assert "at most 65,536 characters" in response.json()["detail"]


def test_a_session_has_a_limited_number_of_live_queries(
    node: InProcessNode, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_queries, "MAX_PER_SESSION", 2)
    for number in range(2):
        node.submit(f"SAVE STREAM t TO noop IDENTIFIED BY many{number}", session=session)
    body = {"statement": "SAVE STREAM t TO noop IDENTIFIED BY many2", "session": session}
    response = node.http.post("/api/v1/statements", json=body)

    assert (response.status_code, response.json()["code"]) == (429, "too_many_streams")


@pytest.mark.parametrize("options", POLICIES)
def test_an_invalid_retry_policy_is_refused(node: InProcessNode, options: str) -> None:
    text = f"SAVE STREAM t TO noop OPTIONS ({options})"
    with node.expect_no_changes():
        response = node.http.post("/api/v1/statements", json={"statement": text})

    assert response.status_code == 400
    assert POLICIES[options] in response.json()["detail"]


def test_an_invalid_retry_policy_of_a_session_is_refused(node: InProcessNode) -> None:
    conf = {"spark.headrace.retry.max.backoff": "1"}
    response = node.http.post("/api/v1/sessions", json={"conf": conf})

    assert response.status_code == 400
    assert "Allowed values: an integer and a unit, for example 10s" in response.json()["detail"]


@pytest.fixture
def session(node: InProcessNode) -> Iterator[str]:
    session_id, driver = node.start_session(kind="streaming")
    yield session_id
    node.http.delete(f"/api/v1/sessions/{session_id}")
    driver.goodbye()


def test_two_live_queries_with_one_name_conflict(node: InProcessNode, session: str) -> None:
    node.submit("SAVE STREAM t TO noop IDENTIFIED BY Twice", session=session)
    other = node.stream("twice")
    text = "SAVE STREAM t TO noop IDENTIFIED BY twice"
    response = node.http.post("/api/v1/statements", json={"statement": text, "session": session})

    assert response.status_code == 409
    assert response.json()["code"] == "stream_name_exists"
    assert other["id"] in response.json()["detail"]


def test_a_sink_of_files_does_not_continue_the_batches_of_another_place(
    node: InProcessNode, session: str
) -> None:
    _run_and_stop(node, session, "SAVE STREAM t TO noop IDENTIFIED BY moved")
    texts = (
        "SAVE STREAM t TO json IDENTIFIED BY moved",
        "SAVE STREAM t TO json IDENTIFIED BY placed OPTIONS ('path' = '/b')",
    )
    _run_and_stop(
        node, session, "SAVE STREAM t TO json IDENTIFIED BY placed OPTIONS ('path' = '/a')"
    )
    for text in texts:
        body = {"statement": text, "session": session}
        response = node.http.post("/api/v1/statements", json=body)
        assert (response.status_code, response.json()["code"]) == (409, "checkpoint_of_other_sink")
    _run_and_stop(
        node, session, "SAVE STREAM t TO json IDENTIFIED BY placed OPTIONS ('path' = '/a')"
    )


def _run_and_stop(node: InProcessNode, session: str, text: str) -> None:
    """Start a query, let it commit batch 3, and stop it."""
    driver = node.launcher.connect_driver(session)
    statement = node.submit(text, session=session)["id"]
    query = driver.claim().query
    assert query is not None
    driver.succeed(statement)
    for generation, state in ((1, StreamState.RUNNING), (2, StreamState.STOPPED)):
        if state is StreamState.STOPPED:
            node.act_on_stream(query.id, "stop")
        report = QueryReport(id=query.id, generation=generation, state=state, last_batch=3)
        driver.renew(queries=[report])
    assert node.stream(query.id)["state"] == "stopped"


def test_the_options_of_a_query_win_over_those_of_its_sink(
    node: InProcessNode, session: str
) -> None:
    _define(
        node,
        session,
        "CREATE SINK files TO json OPTIONS ('path' = '/a', 'headrace.retry.enabled' = 'false')",
    )
    node.submit("SAVE STREAM t TO files IDENTIFIED BY to_files", session=session)

    shown = node.stream("to_files")
    assert (shown["sink"], shown["path"]) == ("json", "/a")
    node.submit("DROP SINK files")


def test_definitions_are_shown_without_secrets(node: InProcessNode, session: str) -> None:
    url = "jdbc:postgresql://u:pw1@h/d?password=pw2"
    _define(
        node,
        session,
        "CREATE SINK orders TO jdbc"
        f" OPTIONS ('url' = '{url}', 'dbtable' = 't', 'password' = 'pw3')",
    )
    node.submit(
        "SAVE STREAM t TO orders IDENTIFIED BY masked OPTIONS ('user' = 'me', 'password' = 'pw4')",
        session=session,
    )
    shown = str(node.rows("SHOW SINKS")) + str(node.rows("SHOW STREAM masked"))
    shown += str(node.stream("masked")) + str(node.rows("SHOW STREAMS"))

    assert "orders" in shown
    assert "redacted" in shown
    for secret in ("pw1", "pw2", "pw3", "pw4"):
        assert secret not in shown
    node.submit("DROP SINK orders")


def test_a_definition_appears_with_the_success_of_its_statement(
    node: InProcessNode, session: str
) -> None:
    driver = node.launcher.connect_driver(session)
    statement = node.submit("CREATE STREAM events FROM rate", session=session)["id"]
    assert node.rows("SHOW STREAMS") == [] or "events" not in str(node.rows("SHOW STREAMS"))
    driver.claim()
    driver.succeed(statement)

    assert "events" in str(node.rows("SHOW STREAMS"))
    again = node.http.post(
        "/api/v1/statements", json={"statement": "create stream EVENTS from rate"}
    )
    assert (again.status_code, again.json()["code"]) == (409, "definition_exists")
    assert node.rows("DROP STREAM Events") == [["events"]]
    assert node.run("DROP STREAM events")["error"]["code"] == "definition_not_found"


def test_the_slower_of_two_definitions_with_one_name_fails(
    node: InProcessNode, session: str
) -> None:
    driver = node.launcher.connect_driver(session)
    texts = (
        "CREATE STREAM race FROM rate",
        "CREATE STREAM race FROM socket OPTIONS ('host' = 'h', 'port' = '1')",
    )
    first, second = (node.submit(text, session=session)["id"] for text in texts)
    driver.claim()
    driver.succeed(first)
    driver.claim()
    driver.succeed(second)

    assert node.statement(first)["state"] == "success"
    assert node.statement(second)["error"]["code"] == "definition_exists"
    node.submit("DROP STREAM race")


def test_a_stream_is_assigned_with_the_streams_that_it_reads(
    node: InProcessNode, session: str
) -> None:
    driver = node.launcher.connect_driver(session)
    texts = (
        "CREATE STREAM base FROM rate",
        "CREATE STREAM evens AS SELECT value FROM base WHERE value % 2 = 0",
        "CREATE STREAM fours AS SELECT * FROM `Evens` WHERE value % 4 = 0",
    )
    assigned = []
    for text in texts:
        statement = node.submit(text, session=session)["id"]
        assigned.append(driver.claim().definitions)
        driver.succeed(statement)
    node.submit("SAVE STREAM fours TO noop", session=session)
    query = driver.claim().query

    assert assigned == [[], [texts[0]], [texts[0], texts[1]]]
    assert query is not None
    assert query.spec.definitions == list(texts)
    for name in ("base", "evens", "fours"):
        node.submit(f"DROP STREAM {name}")


def _define(node: InProcessNode, session: str, text: str) -> None:
    driver = node.launcher.connect_driver(session)
    statement = node.submit(text, session=session)["id"]
    assert driver.claim().command is not None
    assert driver.succeed(statement).applied


def test_lists_say_what_an_unlisted_provider_guarantees(node: InProcessNode, session: str) -> None:
    for sink in ("com.acme.Provider", "parquet"):
        save = f"SAVE STREAM t TO {sink} IDENTIFIED BY `to {sink}`"
        assert node.submit(save)["state"] == "waiting"
    shown = {row[1]: row[3:5] for row in node.rows("SHOW STREAMS")}
    one = dict(node.rows("SHOW STREAM `to com.acme.Provider`"))

    assert shown["to com.acme.Provider"] == ["com.acme.Provider", "at least once, not checked"]
    assert shown["to parquet"] == ["parquet", "exactly once"]
    assert one["guarantee"] == "at least once, not checked"
    assert node.stream("to com.acme.Provider")["guarantee"] == "at least once, not checked"
