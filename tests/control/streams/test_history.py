"""The history of a streaming query: its minutes, and when and why it did not run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.running_query import ERROR, RunningQuery, make_batch
from tests.support.stream_minutes import add_minutes, make_older

from headrace.control.streams import history
from headrace.model.lifecycle import StreamState
from headrace.store.streams import stream_transitions

BACKOFF: dict[str, Any] = {"delay_seconds": 60.0, "retry_seconds": 60.0, "error": ERROR}


@pytest.fixture
def query(node: InProcessNode) -> RunningQuery:
    return RunningQuery(node)


def read(query: RunningQuery, name: str | None = None, **parameters: Any) -> dict[str, Any]:
    path = f"/api/v1/streams/{name or query.id}/history"
    answer = query.node.http.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def lose_driver(query: RunningQuery) -> None:
    """Let a node notice that the driver of a query is lost."""
    with query.node.database.write("test") as tx:
        stream_transitions.release(tx, query.session, actor="test", reason="driver_lost")


def list_kinds(found: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the interruptions, each with whether it has ended."""
    return [(each["kind"], each["ended_at"] is not None) for each in found["interruptions"]]


def test_batches_are_rates_of_their_minute(query: RunningQuery) -> None:
    add_minutes(
        query.node.database,
        query.id,
        *(9, 7),
        batches=6,
        input_rows=3000,
        milliseconds=1500,
        slowest_milliseconds=700,
        add_batch=900,
        watermark_gap=61_500,
        backlog=12,
    )
    query.report(StreamState.RUNNING, last_batch=1, progress=[make_batch(1)])
    found = read(query)
    first, second, last = found["minutes"]
    assert first["at"] < second["at"] < last["at"] <= found["read_at"]
    assert (first["input_rate"], first["process_rate"]) == (50.0, 2000.0)
    assert first["parts"] == {
        **dict.fromkeys(
            ("latest_offset", "get_batch", "query_planning", "wal_commit", "commit_offsets"), 0
        ),
        "add_batch": 900,
    }
    assert (first["watermark_gap_seconds"], first["backlog"]) == (61.5, 12)
    assert (last["batches"], last["watermark_gap_seconds"], last["backlog"]) == (1, None, None)
    assert [each["batches"] for each in read(query, minutes=5)["minutes"]] == [1]
    assert read(query, name=query.name)["minutes"][:2] == [first, second]


def test_a_lost_driver_interrupts_its_query_until_another_runs_it(query: RunningQuery) -> None:
    lose_driver(query)
    [now] = read(query)["interruptions"][1:]
    assert (now["kind"], now["ended_at"], now["cause"]) == ("driver_down", None, "driver_lost")
    query.report(StreamState.BACKING_OFF, failures=1, **BACKOFF)
    query.report(StreamState.STARTING, failures=1)
    query.report(StreamState.RUNNING)
    kinds = list_kinds(read(query))
    assert kinds == [("starting", True), ("driver_down", True), ("backing_off", True)]
    assert [mark["kind"] for mark in read(query)["marks"]] == ["attempt", "run"]


def test_retries_are_one_interruption_with_the_last_cause(query: RunningQuery) -> None:
    for failures in range(1, 4):
        query.report(StreamState.BACKING_OFF, failures=failures, **BACKOFF)
        query.report(StreamState.STARTING, failures=failures)
    found = read(query)
    assert list_kinds(found) == [("starting", True), ("backing_off", False)]


def test_a_pause_lasts_from_the_stop_to_the_next_run(query: RunningQuery) -> None:
    query.node.act_on_stream(query.id, "pause")
    # It runs until its driver has stopped it.
    assert list_kinds(read(query)) == [("starting", True)]
    query.report(StreamState.STOPPED)
    assert list_kinds(read(query))[1:] == [("paused", False)]
    query.node.act_on_stream(query.id, "resume")
    query.report(StreamState.RUNNING)
    assert list_kinds(read(query))[1:] == [("paused", True), ("starting", True)]


def test_a_history_goes_over_all_attempts_of_a_name(query: RunningQuery) -> None:
    add_minutes(query.node.database, query.id, 30, input_rows=5)
    query.report(StreamState.FAILED, failures=1, error=ERROR)
    make_older(query.node.database, query.id, 20)
    query.node.act_on_stream(query.id, "restart")
    found = read(query, name=query.name)
    assert [(each["attempt"], each["state"]) for each in found["attempts"]] == [
        (2, "starting"),
        (1, "failed"),
    ]
    assert found["attempts"][1]["cause"] == f"Failed: {ERROR.message}"
    assert [each["input_rows"] for each in found["minutes"]] == [5]
    assert list_kinds(found) == [("starting", True), ("failed", True), ("starting", False)]
    assert [mark["text"] for mark in found["marks"]] == ["attempt 1", "attempt 2"]
    # What was before the first minute is left out, and what lasts is cut.
    found = read(query, name=query.name, minutes=10)
    assert list_kinds(found) == [("failed", True), ("starting", False)]
    assert found["interruptions"][0]["began_at"] == found["began_at"]
    assert [mark["text"] for mark in found["marks"]] == ["attempt 2"]
    assert found["minutes"] == []


def test_a_query_that_is_restarted_all_the_time_has_a_bounded_history(
    query: RunningQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_SHOWN", 3)
    for failures in range(1, 5):
        query.report(StreamState.BACKING_OFF, failures=failures, **BACKOFF)
        query.report(StreamState.RUNNING, failures=failures)
    found = read(query)
    assert list_kinds(found) == [("backing_off", True)] * 3
    assert [mark["kind"] for mark in found["marks"]] == ["run"] * 3
    assert found["marks"][-1]["at"] == found["interruptions"][-1]["ended_at"]


def test_a_history_reads_no_minutes_and_events_of_attempts_that_ended_long_before(
    query: RunningQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = [query.id]
    for age in (1000, 600, 400):
        query.report(StreamState.FAILED, failures=1, error=ERROR)
        make_older(query.node.database, query.id, age)
        query.id = query.node.act_on_stream(query.id, "restart")["id"]
        attempts.insert(0, query.id)
    asked: dict[str, list[str]] = {}
    for module, name in ((history.stream_minutes, "read"), (history.events, "read_newest")):
        read_rows = getattr(module, name)

        def note(
            tx: Any,
            ids: list[str],
            *rest: Any,
            name: str = name,
            read_rows: Any = read_rows,
            **more: Any,
        ) -> Any:
            asked[name] = list(ids)
            return read_rows(tx, ids, *rest, **more)

        monkeypatch.setattr(module, name, note)
    found = read(query)
    # The attempt before them says why the query did not run at the begin.
    assert asked == {"read": attempts[:1], "read_newest": attempts[:2]}
    assert list_kinds(found) == [("failed", True), ("starting", False)]
    assert found["interruptions"][0]["began_at"] == found["began_at"]
    assert [each["id"] for each in found["attempts"]] == attempts


@pytest.mark.parametrize("minutes", ["0", "361", "-1", "1.5", "all", ""])
def test_a_length_that_is_not_kept_is_refused(query: RunningQuery, minutes: str) -> None:
    path = f"/api/v1/streams/{query.id}/history"
    assert query.node.http.get(path, params={"minutes": minutes}).status_code == 400


def test_an_unknown_query_has_no_history(node: InProcessNode) -> None:
    assert node.http.get("/api/v1/streams/nothing/history").status_code == 404
