"""Events as a list and as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any

import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode

Json = dict[str, Any]


def list_events(node: InProcessNode, **query: Any) -> list[Json]:
    """Return all events that match the query; read them page by page."""
    events: list[Json] = []
    while True:
        page = node.http.get("/api/v1/events", params=query).json()
        events += page["items"]
        if page["next"] is None:
            return events
        query["after"] = page["next"]


@contextmanager
def open_stream(
    node: InProcessNode, *, after: str | None = None, **headers: str
) -> Iterator[Iterator[Json]]:
    """Open a stream of server-sent events, and yield their fields (id, event, data)."""
    accept = {"Accept": "text/event-stream", **headers}
    query = {} if after is None else {"after": after}
    with node.http.stream("GET", "/api/v1/events", params=query, headers=accept) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        yield parse_server_sent_events(response.iter_lines())


def parse_server_sent_events(lines: Iterator[str]) -> Iterator[Json]:
    fields: Json = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "data" in fields:
                yield {**fields, "data": json.loads(fields["data"])}
            fields = {}


def test_every_change_of_a_statement_is_an_event(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    driver.succeed(statement_id)
    events = list_events(node, entity="statement", entity_id=statement_id)
    assert [(event["from"], event["to"]) for event in events] == [
        (None, "waiting"),
        ("waiting", "launched"),
        ("launched", "running"),
        ("running", "success"),
    ]
    assert [event["actor"] for event in events] == [LOCAL_OWNER, *[f"driver:{session_id}:1"] * 3]
    assert {(event["entity"], event["entity_id"]) for event in events} == {
        ("statement", statement_id)
    }
    statement = node.statement(statement_id)
    instants = map(datetime.fromisoformat, (statement["created_at"], events[0]["at"]))
    assert next(instants) <= next(instants)
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)


def test_every_change_of_a_session_is_an_event(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    node.fail_session(session_id, driver)
    events = list_events(node, entity_id=session_id)
    states = ["not_started", "starting", "running", "recovering", "failed"]
    assert [event["to"] for event in events] == states
    assert events[-1]["detail"]["failure"]["code"] == "spark_unavailable"


def test_events_are_listed_in_pages_oldest_first(node: InProcessNode) -> None:
    session_id = node.session()
    statement_ids = [node.submit(session=session_id)["id"] for _ in range(5)]
    all_events = list_events(node, entity="statement")
    own = [event for event in all_events if event["entity_id"] in statement_ids]
    assert [event["entity_id"] for event in own] == statement_ids
    # Statements of earlier tests may end at any time.
    assert list_events(node, entity="statement", limit=2)[: len(all_events)] == all_events
    later = list_events(node, entity="statement", after=own[-3]["cursor"])
    assert [event for event in later if event["entity_id"] in statement_ids] == own[-2:]


@pytest.mark.parametrize(
    "cursor", ["x", "1", "0.1", "0.1.x", "0.0.99999999999999999999", "0.-1.0", ".."]
)
@pytest.mark.parametrize("request_kind", ["list", "stream", "resume"])
def test_an_invalid_cursor_is_refused(node: InProcessNode, cursor: str, request_kind: str) -> None:
    headers = {} if request_kind == "list" else {"Accept": "text/event-stream"}
    query = {"after": cursor}
    if request_kind == "resume":
        headers["Last-Event-ID"] = cursor
        query = {}
    response = node.http.get("/api/v1/events", params=query, headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


def test_a_stream_sends_past_events_first_and_then_new_ones(node: InProcessNode) -> None:
    session_id = node.session()
    first = node.submit(session=session_id)["id"]
    with open_stream(node) as stream:
        first_event = next(event for event in stream if event["data"]["entity_id"] == first)
        assert first_event["event"] == "statement"
        assert first_event["id"] == first_event["data"]["cursor"]
        assert (first_event["data"]["from"], first_event["data"]["to"]) == (None, "waiting")
        second = node.submit(session=session_id)["id"]
        second_event = next(event for event in stream if event["data"]["entity_id"] == second)
        assert second_event["data"]["to"] == "waiting"


@pytest.mark.finding("U13")
def test_a_stream_from_now_sends_no_past_event(node: InProcessNode) -> None:
    session_id = node.session()
    first = node.submit(session=session_id)["id"]
    with open_stream(node, after="now") as stream:
        second = node.submit(session=session_id)["id"]
        for event in stream:
            assert event["data"]["entity_id"] != first
            if event["data"]["entity_id"] == second:
                break


@pytest.mark.finding("U13")
def test_a_stream_from_now_can_be_resumed_before_its_first_event(node: InProcessNode) -> None:
    accept = {"Accept": "text/event-stream"}
    with node.http.stream("GET", "/api/v1/events?after=now", headers=accept) as response:
        cursor = next(line for line in response.iter_lines() if line.startswith("id: "))[4:]
    statement_id = node.submit(session=node.session())["id"]
    with open_stream(node, **{"Last-Event-ID": cursor}) as stream:
        assert any(event["data"]["entity_id"] == statement_id for event in stream)


@pytest.mark.finding("U13")
def test_a_list_from_now_has_no_past_event_and_names_the_next_page(node: InProcessNode) -> None:
    session_id = node.session()
    earlier = node.submit(session=session_id)["id"]
    page = node.http.get("/api/v1/events", params={"after": "now"}).json()
    # Sessions of other tests may end meanwhile.
    assert earlier not in {event["entity_id"] for event in page["items"]}
    submitted = node.submit(session=session_id)["id"]
    later = {event["entity_id"] for event in list_events(node, after=page["next"])}
    assert submitted in later
    assert earlier not in later


def test_a_stream_resumes_after_the_last_event_id(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    first, second = list_events(node, entity_id=statement_id)
    with open_stream(node, **{"Last-Event-ID": first["cursor"]}) as stream:
        # Sessions and statements of earlier tests may end at any time.
        own = (event["data"] for event in stream if event["data"]["entity_id"] == statement_id)
        assert next(own) == second
        driver.report_start(statement_id)
        assert next(own)["to"] == "running"


def test_a_stream_can_be_limited_to_one_statement(node: InProcessNode) -> None:
    session_id = node.session()
    statement_id = node.submit(session=session_id)["id"]
    query = f"/api/v1/events?entity=statement&entity_id={statement_id}"
    with node.http.stream("GET", query, headers={"Accept": "text/event-stream"}) as response:
        stream = parse_server_sent_events(response.iter_lines())
        assert next(stream)["data"]["to"] == "waiting"
        node.submit(session=session_id)
        node.http.post(f"/api/v1/statements/{statement_id}/cancel")
        assert next(stream)["data"]["to"] == "cancelled"


def test_the_last_event_id_takes_precedence_over_after(node: InProcessNode) -> None:
    """A browser reconnects to the URL of its first request, which still has `after`."""
    session_id = node.session()
    statement_ids = [node.submit(session=session_id)["id"] for _ in range(2)]
    [first, second] = [list_events(node, entity_id=each)[0] for each in statement_ids]
    [begin] = node.http.get("/api/v1/events?entity=statement&limit=1").json()["items"]
    query = f"/api/v1/events?entity=statement&after={begin['cursor']}"
    headers = {"Accept": "text/event-stream", "Last-Event-ID": first["cursor"]}
    with node.http.stream("GET", query, headers=headers) as response:
        sent = (event["data"] for event in parse_server_sent_events(response.iter_lines()))
        # Statements of earlier tests may end at any time.
        assert next(event for event in sent if event["entity_id"] in statement_ids) == second


def test_many_streams_read_the_store_no_more_often_than_one(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node(lease={"sweep": "1h"})
    session_id = node.session()
    log, reads = node.node.events, list[str | None]()
    read = log.read

    def count(*, after: str | None, **options: Any) -> Any:
        reads.append(after)
        return read(after=after, **options)

    with ExitStack() as stack:
        streams = [stack.enter_context(open_stream(node, after="now")) for _ in range(20)]
        monkeypatch.setattr(log, "read", count)
        for _ in range(5):
            submitted = node.submit(session=session_id)["id"]
            for stream in streams:
                assert any(event["data"]["entity_id"] == submitted for event in stream)
    # The reader reads once or twice for each event, and once a second. Each stream did so.
    assert len(reads) < 5 * len(streams)
