"""Webhooks of a node: who has them, what they receive, and what a failed endpoint leads to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.batch_jobs import BatchJob, insert_batch_job
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result
from tests.support.pool_driver import PoolDriver
from tests.support.views import ViewWriter
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import SECRET, WebhookReceiver, receive_webhooks
from tests.support.webhooks import insert_message

from headrace.model.expectation import Expectation, ExpectationCounts, OnViolation, Violations
from headrace.model.failure import Failure
from headrace.model.run import BatchSpec, BatchStatement, FiringRules
from headrace.model.schedule import Schedule
from headrace.store.clock import clock
from headrace.store.tables import deliveries as deliveries_table

WRONG = Failure(code="spark_error", message="There is no such table.", sqlstate="42P01")
OWN_HOST = {"private_networks": ["127.0.0.0/8"]}
REFERENCE = "${secret:hook}"


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with receive_webhooks() as receiver:
        yield receiver


@pytest.fixture
def start(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> Callable[..., InProcessNode]:
    """Return a function that starts a node whose owners may use the secret of webhooks."""
    monkeypatch.setenv("SECRET_hook", SECRET)
    monkeypatch.setenv("SECRET_weak", "whsec_c2hvcnQ=")
    monkeypatch.setattr("headrace.control.outbox.sender._FIRST_DELAY", 0.01)
    monkeypatch.setattr("headrace.control.runs.steps._POLL_SECONDS", (0.01, 0.02))

    def start(**changes: Any) -> InProcessNode:
        defaults: dict[str, Any] = {
            "secrets": {"provider": "environment", "allowed": {"hook": ["*"], "weak": ["*"]}},
            "outbox": OWN_HOST,
            "lease": {"sweep": "50ms"},
        }
        return start_node(**(defaults | changes))

    return start


def add(node: InProcessNode, receiver: WebhookReceiver, **fields: Any) -> Any:
    body = {"name": "hook", "url": receiver.url, "secret": REFERENCE, "events": ["run.failed"]}
    answer = node.http.post("/api/v1/webhooks", json=body | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def fail_run(node: InProcessNode, name: str = "load") -> str:
    """Run a job whose statement fails. Return the id of the run."""
    rules = FiringRules(schedule=Schedule(cron="@yearly"))
    insert_batch_job(
        node.database,
        rules,
        cursor=datetime(2100, 1, 1, tzinfo=UTC),
        owner=LOCAL_CALLER.owner,
        name=name,
        batch=BatchSpec(rules=rules, statements=[BatchStatement(text="SELECT 1")]),
    )
    run_id = node.http.post(f"/api/v1/jobs/{name}/runs", json={}).json()["id"]
    waiting = {"state": ["waiting"]}
    wait_until(lambda: node.http.get("/api/v1/statements", params=waiting).json()["items"])
    driver = PoolDriver(node)
    driver.claim()
    driver.fail(WRONG)
    wait_until(lambda: node.http.get(f"/api/v1/runs/{run_id}").json()["state"] == "failed")
    return str(run_id)


def list_deliveries(node: InProcessNode, webhook: str = "hook") -> list[Any]:
    return list(node.http.get(f"/api/v1/webhooks/{webhook}/deliveries").json()["items"])


def await_state(node: InProcessNode, state: str) -> Any:
    def find() -> Any:
        return next((each for each in list_deliveries(node) if each["state"] == state), None)

    return wait_until(find)


def test_a_failed_run_arrives_once_at_the_webhook_of_its_owner_with_a_signature(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start()
    add(node, receiver)
    run_id = fail_run(node)
    delivery = await_state(node, "sent")
    [message] = receiver.messages
    assert message.has_valid_signature
    assert message.id == delivery["id"]
    assert message.json["type"] == "run.failed"
    data = message.json["data"]
    assert (data["run"], data["job"], data["owner"]) == (run_id, "load", LOCAL_CALLER.owner)
    assert data["failure"] == {"code": WRONG.code, "message": WRONG.message}
    assert (delivery["attempts"], delivery["subject"], delivery["next_at"]) == (1, run_id, None)


def test_a_refused_message_is_sent_again_with_its_id_and_a_new_time_and_signature(
    start: Callable[..., InProcessNode],
    receiver: WebhookReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter(range(1_800_000_000, 1_900_000_000, 3600))
    monkeypatch.setattr("headrace.control.outbox.sender._read_time", lambda: next(times))
    node = start()
    add(node, receiver)
    location = {"Location": receiver.url}
    receiver.answers = [(500, {}, b"down"), (302, location, b""), (307, location, b"")]
    fail_run(node)
    delivery = await_state(node, "sent")
    assert delivery["attempts"] == 4
    # The redirects were not followed: they would have added requests.
    assert len(receiver.messages) == 4
    assert {message.id for message in receiver.messages} == {delivery["id"]}
    first = receiver.messages[0].timestamp
    assert [each.timestamp - first for each in receiver.messages] == [0, 3600, 7200, 10800]
    assert all(message.has_valid_signature for message in receiver.messages)
    assert len({message.headers["webhook-signature"] for message in receiver.messages}) == 4


def test_a_hanging_endpoint_delays_neither_the_run_nor_other_endpoints(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start(outbox={**OWN_HOST, "parallelism": 4, "timeout": "60s"})
    with receive_webhooks() as hanging:
        hanging.answering.clear()
        for name in ("a", "b", "c"):
            add(node, hanging, name=name)
        add(node, receiver)
        fail_run(node)
        await_state(node, "sent")
        [waiting] = list_deliveries(node, "a")
        assert (waiting["state"], waiting["last_error"]) == ("waiting", None)


def test_the_messages_to_a_dead_endpoint_fail_visibly_without_its_address(
    start: Callable[..., InProcessNode],
    receiver: WebhookReceiver,
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = start(outbox={**OWN_HOST, "retry_for": "1h"})
    webhook = add(node, receiver, url="http://127.0.0.1:9/token-in-the-path")
    fail_run(node)
    wait_until(lambda: list_deliveries(node)[0]["attempts"] > 1, what="another attempt")
    with node.database.write("test") as tx:
        # The next attempt is the last one.
        tx.execute(update(deliveries_table).values(created_at=clock(-3601)))
    delivery = await_state(node, "failed")
    assert delivery["attempts"] > 1
    assert "Connection refused" in delivery["last_error"]
    wait_until(lambda: delivery["id"] in caplog.text)
    listed = node.http.get("/api/v1/webhooks").text
    for text in (listed, caplog.text, str(delivery), str(webhook)):
        assert "token-in-the-path" not in text
        assert SECRET not in text


@pytest.mark.parametrize(
    ("fields", "arrives"),
    [
        ({"jobs": ["lo*"]}, True),
        ({"jobs": ["other", "loa"]}, False),
        ({"events": ["run.late"]}, False),
    ],
    ids=["job", "other job", "other event"],
)
def test_a_webhook_receives_the_events_that_it_names(
    start: Callable[..., InProcessNode],
    receiver: WebhookReceiver,
    fields: dict[str, Any],
    arrives: bool,
) -> None:
    node = start()
    add(node, receiver, **fields)
    fail_run(node)
    # The messages are stored in the transaction that ends the run.
    assert bool(list_deliveries(node)) is arrives


def test_operators_declare_webhooks_for_all_owners_in_the_settings(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    declared = {"url": receiver.url, "secret": REFERENCE, "events": ["run.failed"]}
    node = start(webhooks={"all": declared, "of-others": {**declared, "owners": ["someone-else"]}})
    fail_run(node)
    wait_until(lambda: receiver.messages)
    listed = node.http.get("/api/v1/webhooks", params={"all_owners": "true"}).json()["items"]
    assert [(each["id"], each["owner"]) for each in listed] == [
        ("settings/all", None),
        ("settings/of-others", None),
    ]
    assert list_deliveries(node, "settings%2Fof-others") == []
    assert len(list_deliveries(node, "settings%2Fall")) == 1
    refused = node.http.delete("/api/v1/webhooks/settings%2Fall")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


def test_a_test_reports_the_answer_of_the_endpoint(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start()
    add(node, receiver)
    receiver.answers = [(201, {}, b"created"), (503, {}, b"busy")]
    for status, text, error in (
        (201, "created", None),
        (503, "busy", "the endpoint answered 503"),
    ):
        outcome = node.http.post("/api/v1/webhooks/hook/test").json()
        assert (outcome["status"], outcome["response"], outcome["error"]) == (status, text, error)
        assert receiver.messages[-1].has_valid_signature
        assert receiver.messages[-1].id == outcome["message_id"]
    assert receiver.messages[0].json["type"] == "webhook.test"
    assert list_deliveries(node) == []


def test_a_deleted_webhook_receives_nothing_any_more(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start(lease={"sweep": "1h"})
    webhook = add(node, receiver)
    fail_run(node)
    assert len(list_deliveries(node)) == 1
    assert node.http.delete("/api/v1/webhooks/hook").json()["id"] == webhook["id"]
    assert node.http.get("/api/v1/webhooks/hook/deliveries").status_code == 404
    node.node._outbox.run()
    assert receiver.messages == []


def test_an_address_that_is_not_public_is_refused_by_default(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start(outbox={})
    add(node, receiver)
    outcome = node.http.post("/api/v1/webhooks/hook/test").json()
    assert "127.0.0.1 is not public" in outcome["error"]
    assert receiver.messages == []


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"name": "a b"}, 400, "invalid_request"),
        ({"name": "wh_" + "0" * 32}, 400, "invalid_request"),
        ({"url": "ftp://hooks.example.com"}, 400, "invalid_request"),
        ({"url": "https://ada:secret-1@hooks.example.com"}, 400, "invalid_request"),
        ({"url": "https://[::1"}, 400, "invalid_request"),
        ({"url": "https://hooks.example.com/\r\nX: secret-1"}, 400, "invalid_request"),
        ({"url": "https://hooks.example.com/" + "a" * 2048}, 400, "invalid_request"),
        ({"secret": SECRET}, 400, "invalid_request"),
        ({"secret": "${secret:weak}"}, 400, "invalid_secret"),
        ({"secret": "${secret:missing}"}, 403, "secret_denied"),
        ({"events": []}, 400, "invalid_request"),
        ({"events": ["run.started"]}, 400, "invalid_request"),
        ({"jobs": ["a"] * 101}, 400, "invalid_request"),
        ({"owner": "group:etl"}, 403, "not_permitted"),
    ],
    ids=str,
)
def test_a_webhook_that_cannot_be_is_refused_without_its_secrets(
    start: Callable[..., InProcessNode], fields: dict[str, Any], status: int, code: str
) -> None:
    node = start()
    url = "https://hooks.example.com/"
    body = {"name": "hook", "url": url, "secret": REFERENCE, "events": ["run.failed"]}
    answer = node.http.post("/api/v1/webhooks", json=body | fields)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert "secret-1" not in answer.text
    assert SECRET not in answer.text


def test_two_webhooks_of_an_owner_have_different_names(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start()
    body = {"name": "hook", "url": receiver.url, "secret": REFERENCE, "events": ["run.failed"]}
    add(node, receiver)
    answer = node.http.post("/api/v1/webhooks", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "webhook_name_exists")


def test_violated_expectations_are_reported_although_the_run_succeeds(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start()
    add(node, receiver, events=["expectation.violated"])
    conditions = [
        Expectation(name="positive", condition="a > 0", on_violation=OnViolation.DROP),
        Expectation(name="named", condition="b IS NOT NULL"),
    ]
    statement = BatchStatement(text="INSERT INTO t SELECT 1", expectations=conditions)
    job = BatchJob(node, statements=[statement])
    run_id = job.call("jobs/load/runs")["id"]
    job.next_statement()
    counts = ExpectationCounts(
        rows_in=10,
        rows_dropped=3,
        rows_written=7,
        expectations=[
            Violations(name="positive", violations=3, nulls=1),
            Violations(name="named", violations=0, nulls=0),
        ],
    )
    rows = inline_result([("a", "integer")], [])
    job.driver.succeed(rows, expectation_counts=counts, rows_written=7)
    assert job.await_end(run_id)["state"] == "succeeded"
    await_state(node, "sent")
    [message] = receiver.messages
    assert message.json["type"] == "expectation.violated"
    assert message.json["data"]["run"] == run_id
    assert message.json["data"]["expectations"] == [
        {"name": "positive", "on_violation": "drop", "violations": 3, "nulls": 1}
    ]


def test_a_refresh_of_a_view_reports_violated_expectations_once(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start()
    add(node, receiver, events=["expectation.violated"])
    view = ViewWriter(node, constraints="(CONSTRAINT positive EXPECT (a > 0))")
    view.statement = view.submit_create()
    violations = [Violations(name="positive", violations=3, nulls=1)]
    counts = ExpectationCounts(rows_in=9, rows_dropped=0, rows_written=9, expectations=violations)
    view.write(view.driver, view.statement, counts)
    await_state(node, "sent")
    [message] = receiver.messages
    assert message.json["data"] == {
        "view": f"spark_catalog.default.{view.name}",
        "owner": node.statement(view.statement)["owner"],
        "statement": view.statement,
        "expectations": [{"name": "positive", "on_violation": "warn", "violations": 3, "nulls": 1}],
    }


def test_a_batch_of_a_view_that_refreshes_itself_is_reported_with_the_name_of_the_view(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start()
    add(node, receiver, events=["expectation.violated"])
    constraints = "(CONSTRAINT positive EXPECT (a > 0))"
    view = ViewWriter(node, properties="WITH (auto_refresh = true)", constraints=constraints)
    view.make()
    violations = [Violations(name="positive", violations=3, nulls=1)]
    counts = ExpectationCounts(rows_in=9, rows_dropped=0, rows_written=9, expectations=violations)
    view.report_batch(0, counts)
    await_state(node, "sent")
    [message] = receiver.messages
    data = message.json["data"]
    assert (data["view"], data["batch"]) == (f"spark_catalog.default.{view.name}", 0)
    assert "job" not in data
    assert data["expectations"] == [
        {"name": "positive", "on_violation": "warn", "violations": 3, "nulls": 1}
    ]


def test_a_node_without_receivers_reads_the_outbox_rarely_and_learns_of_the_first_webhook(
    start: Callable[..., InProcessNode],
    receiver: WebhookReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = start(lease={"sweep": "1h"})
    outbox, reads = node.node._outbox, list[str]()
    read = node.database.read

    def count() -> Any:
        reads.append(threading.current_thread().name)
        return read()

    outbox.run()
    monkeypatch.setattr(node.database, "read", count)
    for _number in range(20):
        outbox.run()
    assert reads.count(threading.current_thread().name) == 0
    add(node, receiver)
    fail_run(node)
    outbox.run()
    assert reads.count(threading.current_thread().name) == 2
    wait_until(lambda: receiver.messages)


@pytest.mark.parametrize(
    "settings",
    [
        {"openlineage": {"file": "/dev/null"}},
        {
            "webhooks": {
                "all": {"url": "http://127.0.0.1:9/", "secret": REFERENCE, "events": ["run.late"]}
            }
        },
    ],
    ids=["openlineage", "settings"],
)
def test_a_node_with_receivers_in_its_settings_looks_for_messages_in_each_sweep(
    start: Callable[..., InProcessNode], settings: dict[str, Any]
) -> None:
    assert start(lease={"sweep": "1h"}, **settings).node._outbox._use.find()


def test_messages_of_a_deleted_webhook_keep_the_outbox_in_use(
    start: Callable[..., InProcessNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.control.outbox.sender._USE_SECONDS", 0.0)
    node = start(lease={"sweep": "1h"})
    assert not node.node._outbox._use.find()
    insert_message(node, "wh_deleted", "rn_1")
    assert node.node._outbox._use.find()


def test_attempts_and_waiting_messages_are_measured(
    start: Callable[..., InProcessNode], receiver: WebhookReceiver
) -> None:
    node = start(outbox={**OWN_HOST, "retry_for": "1ms"})
    add(node, receiver)
    receiver.answers = [(500, {}, b"")]
    fail_run(node)
    await_state(node, "failed")

    def read_metrics() -> dict[str, float]:
        lines = node.http.get("/metrics").text.splitlines()
        samples = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name: float(value) for name, _space, value in samples}

    attempts = 'headrace_delivery_attempts_total{event="run.failed",outcome="%s"}'
    wait_until(lambda: read_metrics().get(attempts % "failed") == 1)
    assert read_metrics()["headrace_waiting_messages"] == 0
    assert read_metrics()["headrace_oldest_message_seconds"] == 0
    insert_message(node, "wh_x", "rn_1", ("waiting", None, "refused"))
    with node.database.write("test") as tx:
        tx.execute(
            update(deliveries_table)
            .where(deliveries_table.c.next_at.is_not(None))
            .values(created_at=clock(-500))
        )
    assert read_metrics()["headrace_waiting_messages"] == 1
    assert 500 <= read_metrics()["headrace_oldest_message_seconds"] < 600
    fail_run(node, "second")
    wait_until(lambda: read_metrics().get(attempts % "sent") == 1)
