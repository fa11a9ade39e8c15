"""Lineage and system tables with a real node and Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.control.outbox.test_openlineage import validate
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

_EVENTS = "openlineage.jsonl"
STATEMENTS = [
    "CREATE TABLE raw USING parquet AS SELECT id AS n, 'x' AS s FROM range(10)",
    "CREATE TABLE clean USING parquet AS SELECT n FROM raw WHERE n > 1",
    "INSERT INTO clean SELECT n + 100 FROM raw",
    "CREATE MATERIALIZED VIEW daily AS SELECT count(*) AS c FROM clean",
    "REFRESH MATERIALIZED VIEW daily",
    "CREATE TABLE report USING parquet AS SELECT c FROM daily",
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    home = tmp_path_factory.mktemp("node") / "home"
    process = NodeProcess(home, OPENLINEAGE__FILE=str(home / _EVENTS))
    yield process
    process.close()


@pytest.fixture(scope="module")
def session(node: NodeProcess) -> str:
    session_id = node.session(name="etl")
    for text in STATEMENTS:
        ended = node.run(text, session=session_id)
        assert ended["state"] == "success", ended
    return session_id


@pytest.mark.usefixtures("session")
def test_a_graph_follows_tables_and_views_as_far_as_their_sources(node: NodeProcess) -> None:
    query = {"table": "report", "direction": "upstream", "depth": 5}
    graph = node.http.get("/api/v1/lineage", params=query).json()
    edges = [
        (edge["source"].split(".")[-1], edge["target"].split(".")[-1], edge["statements"])
        for edge in graph["edges"]
    ]
    assert edges == [("daily", "report", 1), ("clean", "daily", 2), ("raw", "clean", 2)]


def test_system_tables_are_read_like_tables(node: NodeProcess, session: str) -> None:
    text = """
        SELECT s.state, l.direction, l.table_name, l.columns
        FROM headrace.statements s JOIN headrace.lineage l ON l.statement_id = s.id
        WHERE s.statement LIKE 'INSERT INTO clean%' ORDER BY direction
    """
    assert node.rows(text, session=session) == [
        ["success", "read", "spark_catalog.default.raw", ["n"]],
        ["success", "write", "spark_catalog.default.clean", ["n"]],
    ]
    started = f"SELECT count(*) > 0 FROM headrace.events WHERE entity_id = '{session}'"
    assert node.rows(started, session=session) == [[True]]
    kept = "CREATE TABLE kept USING parquet AS SELECT id FROM headrace.statements"
    assert node.run(kept, session=session)["state"] == "success"
    assert node.rows("SELECT count(*) > 6 FROM kept", session=session) == [[True]]
    for table in ("runs", "streams"):
        assert node.rows(f"SELECT * FROM headrace.{table}", session=session) == []


def test_a_second_read_of_a_system_table_sees_the_newest_rows(
    node: NodeProcess, session: str
) -> None:
    text = "SELECT count(*) FROM headrace.statements"
    [[first]], [[second]] = (node.rows(text, session=session) for _ in range(2))
    assert int(second) == int(first) + 1


def test_an_unknown_system_table_is_refused(node: NodeProcess, session: str) -> None:
    ended = node.run("SELECT * FROM headrace.foo", session=session)
    assert ended["error"]["code"] == "system_table_unavailable"
    assert "statements, runs, streams, events, lineage" in ended["error"]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO headrace.runs SELECT * FROM headrace.runs",
        "CREATE OR REPLACE TABLE headrace.runs AS SELECT 1 AS id",
        "DELETE FROM headrace.runs WHERE id = 'x'",
        "DROP TABLE headrace.runs",
        "CREATE VIEW kept_view AS SELECT * FROM headrace.runs",
    ],
)
def test_a_write_to_a_system_table_is_refused(node: NodeProcess, session: str, text: str) -> None:
    ended = node.run(text, session=session)
    assert ended["state"] == "failed"
    reasons = "cannot be changed|does not support|exist for one statement"
    assert re.search(reasons, ended["error"]["message"]), ended["error"]


def _list_stream_events(node: NodeProcess, name: str) -> list[dict[str, Any]]:
    """Return the OpenLineage events of a query that have arrived. Each event is checked."""
    file = node.home / _EVENTS
    # The node may still write the last line.
    whole, _, _part = (file.read_text() if file.exists() else "").rpartition("\n")
    events = [json.loads(line) for line in whole.splitlines()]
    for event in events:
        validate(event)
    return [each for each in events if each["job"]["name"].endswith(f".adhoc.{name}")]


def test_a_streaming_query_is_between_its_files_and_its_table(
    node: NodeProcess, session: str, tmp_path: Path
) -> None:
    (tmp_path / "1.json").write_text('{"n": 1, "secret": "x"}')
    for text in (
        f"CREATE STREAM arriving (n INT, secret STRING) FROM json OPTIONS ('path' = '{tmp_path}')",
        "CREATE TABLE arrived (n INT) USING parquet",
        "CREATE STREAM joined AS SELECT a.n FROM arriving a JOIN raw ON raw.n = a.n",
        "SAVE STREAM joined TO TABLE arrived IDENTIFIED BY arrivals TRIGGER 1 SECOND",
    ):
        ended = node.run(text, session=session)
        assert ended["state"] == "success", ended

    def find_sources() -> Any:
        query = {"table": "arrived", "direction": "upstream", "depth": 1}
        graph = node.http.get("/api/v1/lineage", params=query)
        return graph.json()["edges"] if graph.status_code == 200 else None

    edges = wait_until(find_sources, seconds=120, what="the lineage of the query is known")
    assert {edge["source"] for edge in edges} == {f"file:{tmp_path}", "spark_catalog.default.raw"}
    assert {edge["last_statement"][:3] for edge in edges} == {"sq_"}
    text = (
        "SELECT direction, table_name, columns FROM headrace.lineage"
        " WHERE statement_id LIKE 'sq_%' ORDER BY table_name"
    )
    assert node.rows(text, session=session) == [
        ["read", f"file:{tmp_path}", ["n"]],
        ["write", "spark_catalog.default.arrived", ["n"]],
        ["read", "spark_catalog.default.raw", ["n"]],
    ]
    assert node.run("STOP STREAM arrivals", session=session)["state"] == "success"
    wait_until(
        lambda: len(_list_stream_events(node, "arrivals")) == 3,
        what="the events of the run have arrived",
    )
    events = {each["eventType"]: each for each in _list_stream_events(node, "arrivals")}
    assert set(events) == {"START", "RUNNING", "ABORT"}
    assert len({each["run"]["runId"] for each in events.values()}) == 1
    for each in (events["RUNNING"], events["ABORT"]):
        sources = {source["namespace"] for source in each["inputs"]}
        assert sources == {"file", "headrace"}
        assert [target["name"] for target in each["outputs"]] == ["spark_catalog.default.arrived"]
