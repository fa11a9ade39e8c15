from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode

Json = dict[str, Any]


def listed(node: InProcessNode, **query: Any) -> list[Json]:
    """Every event of these, page by page."""
    found: list[Json] = []
    while True:
        page = node.http.get("/api/v1/events", params=query).json()
        found += page["items"]
        if page["next"] is None:
            return found
        query["after"] = page["next"]


@contextmanager
def streamed(node: InProcessNode, **headers: str) -> Iterator[Iterator[Json]]:
    """Server-sent events: id, event and data of each."""
    accept = {"Accept": "text/event-stream", **headers}
    with node.http.stream("GET", "/api/v1/events", headers=accept) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        yield _parsed(response.iter_lines())


def _parsed(lines: Iterator[str]) -> Iterator[Json]:
    fields: Json = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield {**fields, "data": json.loads(fields["data"])}
            fields = {}


def test_every_change_of_a_statement_is_an_event(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    driver.succeed(statement_id)
    found = listed(node, entity="statement", entity_id=statement_id)
    assert [(one["from"], one["to"]) for one in found] == [
        (None, "waiting"),
        ("waiting", "launched"),
        ("launched", "running"),
        ("running", "success"),
    ]
    assert [one["actor"] for one in found] == ["anonymous", *[f"driver:{session_id}:1"] * 3]
    assert {(one["entity"], one["entity_id"]) for one in found} == {("statement", statement_id)}
    statement = node.statement(statement_id)
    assert found[0]["at"][:19] == statement["created_at"][:19]
    assert [one["at"] for one in found] == sorted(one["at"] for one in found)


def test_every_change_of_a_session_is_an_event(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    driver.report_spark_failure()
    found = listed(node, entity_id=session_id)
    assert [one["to"] for one in found] == ["not_started", "starting", "running", "failed"]
    assert found[-1]["detail"]["failure"]["code"] == "spark_unavailable"


def test_events_come_in_pages_in_order(node: InProcessNode) -> None:
    session_id = node.session()
    made = [node.submit(session=session_id)["id"] for _ in range(5)]
    whole = listed(node, entity="statement")
    assert [one["entity_id"] for one in whole][-5:] == made
    assert listed(node, entity="statement", limit=2) == whole
    after = whole[-3]["cursor"]
    assert listed(node, entity="statement", after=after) == whole[-2:]


@pytest.mark.parametrize("cursor", ["x", "1", "1.x", "0.99999999999999999999", "-1.0", "."])
@pytest.mark.parametrize("how", ["list", "stream", "resume"])
def test_a_bad_cursor_is_refused(node: InProcessNode, cursor: str, how: str) -> None:
    headers = {} if how == "list" else {"Accept": "text/event-stream"}
    query = {"after": cursor}
    if how == "resume":
        headers["Last-Event-ID"] = cursor
        query = {}
    response = node.http.get("/api/v1/events", params=query, headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


def test_a_stream_begins_with_what_has_been_and_goes_on(node: InProcessNode) -> None:
    session_id = node.session()
    first = node.submit(session=session_id)["id"]
    with streamed(node) as stream:
        past = next(one for one in stream if one["data"]["entity_id"] == first)
        assert past["event"] == "statement"
        assert past["id"] == past["data"]["cursor"]
        assert (past["data"]["from"], past["data"]["to"]) == (None, "waiting")
        second = node.submit(session=session_id)["id"]
        coming = next(one for one in stream if one["data"]["entity_id"] == second)
        assert coming["data"]["to"] == "waiting"


def test_a_stream_resumes_after_the_last_event_id(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    first, second = listed(node, entity_id=statement_id)
    with streamed(node, **{"Last-Event-ID": first["cursor"]}) as stream:
        seen = next(stream)
        assert seen["data"] == second
        driver.report_start(statement_id)
        assert next(stream)["data"]["to"] == "running"


def test_a_stream_may_be_of_one_thing(node: InProcessNode) -> None:
    session_id = node.session()
    mine = node.submit(session=session_id)["id"]
    query = f"/api/v1/events?entity=statement&entity_id={mine}"
    with node.http.stream("GET", query, headers={"Accept": "text/event-stream"}) as response:
        stream = _parsed(response.iter_lines())
        assert next(stream)["data"]["to"] == "waiting"
        node.submit(session=session_id)
        node.http.post(f"/api/v1/statements/{mine}/cancel")
        assert next(stream)["data"]["to"] == "cancelled"


def test_the_last_event_id_wins_over_after(node: InProcessNode) -> None:
    """A browser reconnects to the URL it began with."""
    session_id = node.session()
    made = [node.submit(session=session_id)["id"] for _ in range(2)]
    whole = listed(node, entity="statement")
    query = f"/api/v1/events?entity=statement&after={whole[0]['cursor']}"
    headers = {"Accept": "text/event-stream", "Last-Event-ID": whole[-2]["cursor"]}
    with node.http.stream("GET", query, headers=headers) as response:
        assert next(_parsed(response.iter_lines()))["data"]["entity_id"] == made[-1]
