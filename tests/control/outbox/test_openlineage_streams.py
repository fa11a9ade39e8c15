"""OpenLineage events about runs of streaming queries, whose drivers the tests play."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from sqlalchemy import delete, select, update
from tests.control.outbox.test_openlineage import validate
from tests.support.deployed_job import DeployedJob
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.lineage import READ, WRITE, make_use
from tests.support.running_query import RunningQuery, make_batch
from tests.support.simulated_jobs import SimulatedJobs
from tests.support.waiting import wait_until

from headrace.control.outbox import openlineage
from headrace.model.failure import Failure
from headrace.model.lifecycle import StreamState
from headrace.model.lineage import TableUse
from headrace.model.stream_query import EndReason
from headrace.store.clock import clock
from headrace.store.tables import deliveries, stream_queries

Json = dict[str, Any]
TABLES = [make_use("raw", READ, "a", "b"), make_use("clean", WRITE, "a")]
OTHER_TABLES = [make_use("raw", READ, "a", "b", "c"), make_use("clean", WRITE, "a")]
FAILED = Failure(code="spark_error", message="The source is gone, password=secret-1")
FAILURE: Json = {"failures": 1, "delay_seconds": 60.0, "retry_seconds": 60.0, "error": FAILED}
RECEIVER = {"url": "http://127.0.0.1:9/", "namespace": "test"}


@pytest.fixture
def query(start_node: StartNode) -> RunningQuery:
    """Return a running query of a node that has a receiver of OpenLineage events."""
    return RunningQuery(start_node(openlineage=RECEIVER, lease={"sweep": "50ms"}))


def list_events(node: InProcessNode) -> list[Json]:
    """Return the events in their order. Each is checked against the specification."""
    with node.database.read() as tx:
        texts = tx.execute(select(deliveries.c.payload).order_by(deliveries.c.id)).scalars()
        events = [json.loads(text) for text in texts]
    for event in events:
        validate(event)
        assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    return events


def list_types(node: InProcessNode) -> list[str]:
    return [event["eventType"] for event in list_events(node)]


def run_ids(node: InProcessNode) -> list[str]:
    return [event["run"]["runId"] for event in list_events(node)]


def names(datasets: list[Json]) -> list[str]:
    return [each["name"].rpartition(".")[2] for each in datasets]


def test_a_run_has_one_start_and_one_running_with_its_tables(query: RunningQuery) -> None:
    assert list_types(query.node) == ["START"]
    query.report(StreamState.RUNNING, lineage=TABLES, sequence=1)
    for number in range(2, 5):
        query.report(StreamState.RUNNING, progress=[make_batch(number)], sequence=number)
    query.report(StreamState.RUNNING, lineage=TABLES, sequence=5)

    start, running = list_events(query.node)
    assert (start["eventType"], start["inputs"], start["outputs"]) == ("START", [], [])
    assert (running["eventType"], names(running["inputs"])) == ("RUNNING", ["raw"])
    assert names(running["outputs"]) == ["clean"]
    fields = running["inputs"][0]["facets"]["schema"]["fields"]
    assert [each["name"] for each in fields] == ["a", "b"]
    job = {"namespace": "test", "name": f"{LOCAL_OWNER}.adhoc.{query.name}"}
    assert {name: running["job"][name] for name in job} == job
    assert "parent" not in running["run"]["facets"]


def test_the_id_of_a_run_is_the_same_on_every_node(query: RunningQuery) -> None:
    query.report(StreamState.RUNNING, lineage=TABLES)
    query.report(StreamState.FAILED, error=FAILED)

    expected = str(uuid5(UUID(query.id.removeprefix("sq_")), "run-1"))
    assert run_ids(query.node) == [expected] * 3


def test_a_start_after_a_backoff_is_another_run(query: RunningQuery) -> None:
    query.report(StreamState.RUNNING, lineage=TABLES)
    query.report(StreamState.BACKING_OFF, **FAILURE)
    query.report(StreamState.RUNNING, run_id="run-2", failures=1, error=FAILED)

    assert list_types(query.node) == ["START", "RUNNING", "FAIL", "START", "RUNNING"]
    first, second = run_ids(query.node)[:3], run_ids(query.node)[3:]
    assert len(set(first)) == len(set(second)) == 1
    assert first[0] != second[0]
    failed = list_events(query.node)[2]
    message = failed["run"]["facets"]["errorMessage"]["message"]
    assert message.startswith("The source is gone")
    assert "secret-1" not in message
    assert names(failed["inputs"]) == ["raw"]


def test_the_next_run_reports_its_own_tables(query: RunningQuery) -> None:
    query.report(StreamState.RUNNING, lineage=TABLES)
    query.report(StreamState.BACKING_OFF, **FAILURE)
    query.report(StreamState.RUNNING, run_id="run-2", lineage=OTHER_TABLES)

    fields = list_events(query.node)[-1]["inputs"][0]["facets"]["schema"]["fields"]
    assert [each["name"] for each in fields] == ["a", "b", "c"]


@pytest.mark.parametrize("action", ["stop", "pause", "restart"])
def test_a_run_that_a_user_ends_is_aborted_when_it_has_stopped(
    query: RunningQuery, action: str
) -> None:
    query.report(StreamState.RUNNING, lineage=TABLES)
    query.node.act_on_stream(query.name, action)
    assert list_types(query.node) == ["START", "RUNNING"]
    query.report(StreamState.STOPPED)

    assert list_types(query.node) == ["START", "RUNNING", "ABORT"]
    assert names(list_events(query.node)[-1]["outputs"]) == ["clean"]


def test_a_run_that_has_not_seen_a_pause_continues(query: RunningQuery) -> None:
    query.report(StreamState.RUNNING, lineage=TABLES)
    query.node.act_on_stream(query.name, "pause")
    query.node.act_on_stream(query.name, "resume")
    query.report(StreamState.RUNNING, progress=[make_batch(1)])
    assert list_types(query.node) == ["START", "RUNNING"]
    query.report(StreamState.STOPPED, reason=EndReason.SOURCES_ENDED)
    assert list_types(query.node) == ["START", "RUNNING", "COMPLETE"]


def test_a_run_that_an_older_node_has_ended_is_not_ended_again(query: RunningQuery) -> None:
    query.report(StreamState.BACKING_OFF, **FAILURE)
    with query.node.database.write("test") as tx:
        # It leaves the start of the run behind.
        tx.execute(update(stream_queries).values(healthy_since=clock()))
    query.node.act_on_stream(query.name, "stop")
    query.report(StreamState.STOPPED)
    assert list_types(query.node) == ["START", "FAIL"]


@pytest.mark.parametrize("location", ["s3a://b[12]/x", "kafka://[broker]:9092", "s3a://a\u2100b/c"])
def test_a_location_that_is_no_uri_delays_no_report(query: RunningQuery, location: str) -> None:
    strange = TableUse(direction=READ, location=location)
    query.report(StreamState.RUNNING, lineage=[strange])
    [dataset] = list_events(query.node)[-1]["inputs"]
    assert (dataset["namespace"], dataset["name"]) == ("file", location)


def test_a_run_whose_sources_have_ended_is_complete(query: RunningQuery) -> None:
    query.report(StreamState.RUNNING, lineage=TABLES)
    query.report(StreamState.STOPPED, reason=EndReason.SOURCES_ENDED)

    assert list_types(query.node) == ["START", "RUNNING", "COMPLETE"]
    assert names(list_events(query.node)[-1]["outputs"]) == ["clean"]


def test_a_query_that_fails_for_good_fails_its_run(query: RunningQuery) -> None:
    query.report(StreamState.FAILED, error=FAILED)

    assert list_types(query.node) == ["START", "FAIL"]


def test_a_session_that_fails_fails_the_runs_of_its_queries(query: RunningQuery) -> None:
    query.node.fail_session(query.session, query.driver)

    assert list_types(query.node) == ["START", "FAIL"]


def test_a_run_fails_with_its_driver_and_the_next_driver_begins_another(
    query: RunningQuery,
) -> None:
    query.report(StreamState.RUNNING, lineage=TABLES)
    query.node.launcher.report_exit(query.session, "killed by SIGKILL")
    second = query.node.launcher.connect_driver(query.session, launch=2)
    assert second.hello().applied
    lost = list_events(query.node)[-1]
    assert lost["eventType"] == "FAIL"
    assert "killed by SIGKILL" in lost["run"]["facets"]["errorMessage"]["message"]
    query.report(StreamState.RUNNING, driver=second, run_id="run-2", sequence=1)

    assert list_types(query.node) == ["START", "RUNNING", "FAIL", "START", "RUNNING"]


def test_a_run_that_was_to_stop_is_aborted_by_the_loss_of_its_driver(query: RunningQuery) -> None:
    query.node.act_on_stream(query.name, "stop")
    query.node.launcher.report_exit(query.session, "killed by SIGKILL")

    wait_until(lambda: query.state == "stopped", what="the query has stopped")
    assert list_types(query.node) == ["START", "ABORT"]


@pytest.mark.parametrize(
    ("state", "facts", "types"),
    [
        (StreamState.RUNNING, {}, ["FAIL", "START"]),
        (StreamState.BACKING_OFF, FAILURE, ["FAIL", "START", "FAIL"]),
        (StreamState.FAILED, {"error": FAILED}, ["FAIL", "START", "FAIL"]),
        (StreamState.STARTING, {}, ["FAIL", "START", "FAIL"]),
        (StreamState.STOPPED, {"reason": EndReason.SOURCES_ENDED}, ["FAIL", "START", "COMPLETE"]),
    ],
    ids=["running", "backing off", "failed", "starting", "finished"],
)
def test_a_run_that_begins_between_two_reports_has_its_events(
    query: RunningQuery, state: StreamState, facts: Json, types: list[str]
) -> None:
    query.report(state, run_id="run-2", **facts)

    assert list_types(query.node) == ["START", *types]
    assert query.state == state
    assert len(set(run_ids(query.node))) == 2


@pytest.mark.parametrize("state", [StreamState.BACKING_OFF, StreamState.STARTING])
def test_a_new_run_has_its_events_also_if_state_and_failures_stay_the_same(
    query: RunningQuery, state: StreamState
) -> None:
    query.report(state, **FAILURE)
    query.report(state, run_id="run-2", **FAILURE)

    assert list_types(query.node) == ["START", "FAIL", "START", "FAIL"]


def test_a_run_that_ends_before_its_first_report_has_its_tables(start_node: StartNode) -> None:
    query = RunningQuery(start_node(openlineage=RECEIVER))
    query.report(StreamState.BACKING_OFF, **FAILURE)
    query.report(
        StreamState.STOPPED, run_id="run-2", reason=EndReason.SOURCES_ENDED, lineage=TABLES
    )

    assert list_types(query.node)[2:] == ["START", "RUNNING", "COMPLETE"]
    assert names(list_events(query.node)[-1]["outputs"]) == ["clean"]


def test_a_query_that_backs_off_has_no_run_to_abort(query: RunningQuery) -> None:
    query.report(StreamState.BACKING_OFF, **FAILURE)
    with query.node.database.write("test") as tx:
        # As if the retention had deleted the events of the run.
        tx.execute(delete(deliveries))
    query.node.act_on_stream(query.name, "stop")
    query.report(StreamState.STOPPED, failures=1)

    assert query.state == "stopped"
    assert list_types(query.node) == []


def test_a_failed_start_without_a_run_has_no_event(query: RunningQuery) -> None:
    query.report(StreamState.BACKING_OFF, **FAILURE)
    query.report(StreamState.BACKING_OFF, **{**FAILURE, "failures": 2})

    assert list_types(query.node) == ["START", "FAIL"]


def test_a_repeated_report_repeats_no_event(query: RunningQuery) -> None:
    reports: list[tuple[StreamState, Json]] = [
        (StreamState.RUNNING, {"lineage": TABLES}),
        (StreamState.BACKING_OFF, FAILURE),
    ]
    for sequence, (state, facts) in enumerate(reports, start=1):
        query.report(state, sequence=sequence, **facts)
    before = list_events(query.node)
    for sequence, (state, facts) in enumerate(reports, start=1):
        query.report(state, sequence=sequence, **facts)
    # A report that names the old run again does not begin it again.
    query.report(StreamState.RUNNING, sequence=3)
    query.report(StreamState.BACKING_OFF, sequence=4, **FAILURE)

    assert list_events(query.node) == before
    assert [event["eventType"] for event in before] == ["START", "RUNNING", "FAIL"]


def test_the_runs_of_a_deployed_job_have_the_job_as_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("planning", "job_changer"):
        monkeypatch.setattr(f"headrace.control.jobs.{module}._POLL_SECONDS", 0.02)
    settings = make_settings(tmp_path / "home", jobs={"proof_timeout": "5m"}, openlineage=RECEIVER)
    drivers = SimulatedJobs()
    with serve_node(settings, drivers) as node:
        job = DeployedJob(node, drivers, tmp_path / "state")
        job.deploy()
        job.act("stop")
        events = list_events(node)
        shown = job.show()

    assert [event["eventType"] for event in events] == ["START", "ABORT"]
    for event in events:
        parent = event["run"]["facets"]["parent"]
        assert parent["job"] == {"namespace": "test", "name": f"{LOCAL_OWNER}.job"}
        assert parent["run"]["runId"] == str(UUID(shown["id"].removeprefix("jb_")))


def test_a_node_without_a_receiver_reads_and_writes_nothing(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openlineage, "lineage", None)
    monkeypatch.setattr(openlineage, "deliveries", None)
    query = RunningQuery(start_node())
    query.report(StreamState.RUNNING, lineage=TABLES)
    query.report(StreamState.STOPPED, reason=EndReason.SOURCES_ENDED)

    assert query.state == "stopped"
    assert list_events(query.node) == []
