"""OpenLineage events about runs: their number, their order, and that the schema accepts them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource
from sqlalchemy import select
from tests.control.outbox.test_webhooks import REFERENCE, WRONG
from tests.support.batch_jobs import hold_schedule, insert_batch_job
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.lineage import READ, WRITE, make_use
from tests.support.made_results import inline_result
from tests.support.pool_driver import PoolDriver
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import receive_webhooks

from headrace.control.outbox.openlineage import MAX_BYTES, make_event_text
from headrace.model.failure import Failure
from headrace.model.lineage import TableUse
from headrace.model.run import BatchSpec, BatchStatement, FiringRules, RunRetries
from headrace.model.schedule import Schedule
from headrace.store import lineage
from headrace.store.clock import read_clock
from headrace.store.tables import deliveries

SPEC = Path(__file__).parent / "openlineage_spec"
LOST = Failure(code="spark_error", message="The executor was lost, password=secret-1")
API_KEY = "key-of-the-receiver"


@cache
def _registry() -> Registry[Any]:
    schemas = [json.loads(file.read_text()) for file in SPEC.glob("*.json")]
    return Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas
    )


def validate(event: Any) -> None:
    """Raise ValidationError unless the schemas accept an event and each of its facets."""
    _validate(event, event["schemaURL"])
    facets = [*event["run"]["facets"].values(), *event["job"]["facets"].values()]
    for dataset in [*event["inputs"], *event["outputs"]]:
        facets.extend(dataset.get("facets", {}).values())
    for facet in facets:
        _validate(facet, facet["_schemaURL"])


def _validate(value: Any, url: str) -> None:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    validator = jsonschema.Draft202012Validator(
        {"$ref": url}, registry=_registry(), format_checker=checker
    )
    validator.validate(value)


class LineageJob:
    """A job with two statements in a node that makes events, whose driver the test plays."""

    def __init__(self, node: InProcessNode, retries: int) -> None:
        self.node = node
        self.driver = PoolDriver(node)
        rules = FiringRules(schedule=Schedule(cron="0 * * * *"))
        with node.database.read() as tx:
            now = read_clock(tx.connection)
        batch = BatchSpec(
            rules=rules,
            statements=[BatchStatement(text="SELECT 1"), BatchStatement(text="SELECT 2")],
            retries=RunRetries(max_attempts=retries, min_backoff=timedelta(milliseconds=10)),
        )
        owner = LOCAL_CALLER.owner
        job_id = insert_batch_job(node.database, rules, cursor=now, owner=owner, batch=batch)
        hold_schedule(node.database, job_id)
        self.run_id = node.http.post("/api/v1/jobs/load/runs", json={}).json()["id"]

    def claim(self) -> None:
        waiting = {"state": ["waiting"]}
        wait_until(lambda: self.node.http.get("/api/v1/statements", params=waiting).json()["items"])
        self.driver.claim()

    def succeed(self, *tables: TableUse) -> None:
        with self.node.database.write("test") as tx:
            lineage.save(tx, self.driver.statement, tables)
        self.driver.succeed(inline_result([("a", "integer")], [[1]]))

    def await_end(self) -> None:
        path = f"/api/v1/runs/{self.run_id}"
        wait_until(lambda: self.node.http.get(path).json()["ended_at"] is not None)

    def list_events(self) -> list[Any]:
        """Return the events in their order, after the check of each of them."""
        with self.node.database.read() as tx:
            texts = list(
                tx.execute(select(deliveries.c.payload).order_by(deliveries.c.id)).scalars()
            )
        events = [json.loads(text) for text in texts]
        assert events
        for event in events:
            validate(event)
        return events


@pytest.fixture
def start_job(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> Callable[..., LineageJob]:
    monkeypatch.setattr("headrace.control.runs.steps._POLL_SECONDS", (0.01, 0.02))
    monkeypatch.setattr("headrace.control.runs.steps._LONGEST_WAIT", 0.02)
    monkeypatch.setenv("SECRET_hook", API_KEY)

    def start(url: str = "http://127.0.0.1:9/", *, retries: int = 1) -> LineageJob:
        node = start_node(
            openlineage={"url": url, "api_key": REFERENCE},
            secrets={"provider": "environment"},
            lease={"sweep": "50ms"},
        )
        return LineageJob(node, retries)

    return start


def _name(event: Any) -> tuple[str, str]:
    return event["eventType"], event["job"]["name"].removeprefix(f"{LOCAL_CALLER.owner}.")


def test_each_attempt_of_a_statement_has_one_start_and_one_end_with_its_tables(
    start_job: Callable[..., LineageJob],
) -> None:
    job = start_job()
    job.claim()
    job.succeed(make_use("raw", READ, "a", "b"), make_use("clean", WRITE, "a"))
    job.claim()
    job.driver.fail(LOST)
    job.claim()
    job.succeed()
    job.await_end()
    events = job.list_events()
    assert sorted(map(_name, events)) == sorted(
        [
            ("START", "load"),
            ("START", "load.0"),
            ("COMPLETE", "load.0"),
            ("START", "load.1"),
            ("FAIL", "load.1"),
            ("START", "load.1"),
            ("COMPLETE", "load.1"),
            ("COMPLETE", "load"),
        ]
    )
    # START and end of one run have one id, and each attempt has another one.
    ids = [event["run"]["runId"] for event in events]
    assert sorted(map(ids.count, set(ids))) == [2, 2, 2, 2]
    complete = next(event for event in events if _name(event) == ("COMPLETE", "load.0"))
    [source], [target] = complete["inputs"], complete["outputs"]
    assert source["name"].endswith(".raw")
    assert [each["name"] for each in source["facets"]["schema"]["fields"]] == ["a", "b"]
    assert target["name"].endswith(".clean")
    assert complete["run"]["facets"]["parent"]["run"]["runId"].replace("-", "") in job.run_id
    failed = next(event for event in events if event["eventType"] == "FAIL")
    message = failed["run"]["facets"]["errorMessage"]["message"]
    assert message.startswith("The executor was lost")
    assert "secret-1" not in message


def test_a_failed_run_ends_with_fail_and_a_cancelled_one_with_abort(
    start_job: Callable[..., LineageJob],
) -> None:
    job = start_job()
    job.claim()
    job.driver.fail(WRONG)
    job.await_end()
    ends = [_name(event) for event in job.list_events() if event["eventType"] != "START"]
    assert sorted(ends) == [("FAIL", "load"), ("FAIL", "load.0")]
    again = job.node.http.post("/api/v1/jobs/load/runs", json={"at": "2026-01-01T00:00:00Z"})
    job.run_id = again.json()["id"]
    job.claim()
    job.node.http.post(f"/api/v1/runs/{job.run_id}/cancel")
    statement = job.driver.statement
    wait_until(lambda: job.node.statement(statement)["state"] == "cancelling")
    job.driver.succeed(inline_result([("a", "integer")], [[1]]))
    job.await_end()
    aborted = [_name(event) for event in job.list_events() if event["eventType"] == "ABORT"]
    assert ("ABORT", "load") in aborted


def test_events_reach_the_receiver_with_its_key_and_a_dead_receiver_delays_no_run(
    start_job: Callable[..., LineageJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.control.outbox.sender._FIRST_DELAY", 0.01)
    with receive_webhooks() as receiver:
        receiver.answers = [(500, {}, b"")] * 3
        job = start_job(receiver.url)
        receiver.answering.clear()
        job.claim()
        job.driver.fail(WRONG)
        job.await_end()
        receiver.answering.set()
        wait_until(lambda: len(receiver.messages) == 7)
        assert {each.headers["authorization"] for each in receiver.messages} == {
            f"Bearer {API_KEY}"
        }
        kinds = {each.json["eventType"] for each in receiver.messages}
        assert kinds == {"START", "FAIL"}


def test_events_are_appended_to_a_file(start_node: StartNode, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    node = start_node(openlineage={"file": str(file)}, lease={"sweep": "50ms"})
    job = LineageJob(node, retries=0)
    job.claim()
    job.driver.fail(WRONG)
    # The node may be writing the last line.
    wait_until(lambda: file.exists() and file.read_text().count("\n") == 4)
    for line in file.read_text().splitlines():
        validate(json.loads(line))


def test_a_large_event_loses_its_columns_and_then_its_last_tables() -> None:
    event = {
        "eventType": "COMPLETE",
        "eventTime": "2026-01-01T00:00:00Z",
        "producer": "urn:headrace:test",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": "0193f4a8-c2d1-7b3e-9f60-a1b2c3d4e5f6", "facets": {}},
        "job": {"namespace": "headrace", "name": "load", "facets": {}},
    }
    columns = [f"column_{number}" for number in range(500)]
    wide = [make_use(f"t{number}", READ, *columns) for number in range(60)]
    text = make_event_text(event, wide, "headrace")
    assert len(text) <= MAX_BYTES
    full = json.loads(text)
    validate(full)
    assert len(full["inputs"]) == 60
    assert "facets" not in full["inputs"][0]
    long = [
        TableUse(direction=READ, namespace=["ü" * 140] * 4, name=f"t{number}")
        for number in range(200)
    ]
    text = make_event_text(event, long, "headrace")
    assert len(text) <= MAX_BYTES
    assert 0 < len(json.loads(text)["inputs"]) < 200


@pytest.mark.parametrize(
    ("use", "namespace", "name"),
    [
        ({"location": "s3a://bucket/a/b"}, "s3a://bucket", "a/b"),
        ({"location": "file:/data/a"}, "file", "/data/a"),
        ({"location": "/data/a"}, "file", "/data/a"),
        ({"location": "jdbc:postgresql://db/shop", "name": "t"}, "postgresql://db/shop", "t"),
    ],
    ids=["object store", "file", "path", "jdbc"],
)
def test_files_and_tables_behind_jdbc_have_the_names_of_openlineage(
    use: dict[str, str], namespace: str, name: str
) -> None:
    text = make_event_text({}, [TableUse(direction=WRITE, **use)], "headrace")
    assert json.loads(text)["outputs"] == [{"namespace": namespace, "name": name}]
