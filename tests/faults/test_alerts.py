"""Alerts about failed runs whose node is killed at each step from the failure to the message."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.faults.plan import Fault, Plan
from tests.faults.points import read_points
from tests.support.node import NodeProcess
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import SECRET, WebhookReceiver, receive_webhooks

_STEPS = {
    "the failure is not stored": Fault("store run.step", "before_commit", "kill", hit=2),
    "the failure is stored": Fault("store run.step", "after", "kill", hit=2),
    "the message is claimed": Fault("store outbox.claim", "after", "kill"),
    "the message has arrived": Fault("store outbox.record", "before_commit", "kill"),
}
"""Each run begins its attempt in its first step, and ends, or is postponed, in its second one."""
_MANIFEST = """
name: {name}
schedule: manual
retries: {{max-attempts: {retries}, min-backoff: 10ms}}
script: {sql}
"""
_BROKEN = "SELECT raise_error('It is broken.')"
# A failure that another attempt may not meet, until there is a row.
_FLAKY = "SELECT 1 / count(*) AS a FROM text.`{folder}`"


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with receive_webhooks() as receiver:
        yield receiver


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(tmp_path / "plan", read_points())


@pytest.fixture
def node(tmp_path: Path, plan: Plan, receiver: WebhookReceiver) -> Iterator[NodeProcess]:
    """Yield a node with a job that fails, one that fails at first, and a webhook about both."""
    process = NodeProcess(
        tmp_path / "home",
        # The driver finds the node again after each start.
        port=free_port(),
        environment={**plan.environment, "SECRET_hook": SECRET},
        SECRETS__PROVIDER="environment",
        SECRETS__ALLOWED='{"hook": ["*"]}',
        OUTBOX__PRIVATE_NETWORKS='["127.0.0.0/8"]',
        LEASE__SWEEP="200ms",
        LEASE__DURATION="20s",
    )
    with closing(process) as node:
        project = tmp_path / "project"
        (project / "rows").mkdir(parents=True)
        flaky = _FLAKY.format(folder=project / "rows")
        for name, sql, retries in (("broken", _BROKEN, 0), ("flaky", flaky, 2)):
            text = _MANIFEST.format(name=name, sql=sql, retries=retries)
            (project / f"{name}.yaml").write_text(text)
        _deploy(node, project)
        webhook = {
            "name": "hook",
            "url": receiver.url,
            "secret": "${secret:hook}",
            "events": ["run.failed"],
        }
        assert node.http.post("/api/v1/webhooks", json=webhook).is_success
        yield node


def _deploy(node: NodeProcess, project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli", "deploy", "broken.yaml", "flaky.yaml", "--yes"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=node.client_environment,
        cwd=project,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _start_run(node: NodeProcess, job: str) -> str:
    return str(node.http.post(f"/api/v1/jobs/{job}/runs", json={}).json()["id"])


def _restart_after_kill(node: NodeProcess, plan: Plan) -> None:
    """Wait until the fault has killed the node. Start it after the lease of its message."""
    wait_until(lambda: node.process.poll() is not None, seconds=120, what="the node is killed")
    node.http.close()
    plan.write([])
    with closing(sqlite3.connect(node.home / "headrace.db")) as store, store:
        store.execute("UPDATE deliveries SET next_at = 0 WHERE next_at IS NOT NULL")
    node.start()


def _await_state(node: NodeProcess, run: str, state: str) -> None:
    def read() -> Any:
        return node.http.get(f"/api/v1/runs/{run}").json()

    wait_until(lambda: read()["ended_at"], seconds=120, what=f"the run is {state}")
    assert read()["state"] == state, read()["failure"]


def _list_deliveries(node: NodeProcess) -> list[Any]:
    return list(node.http.get("/api/v1/webhooks/hook/deliveries").json()["items"])


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")
def test_a_killed_node_loses_no_alert_and_sends_none_about_a_run_that_succeeds_in_the_end(
    node: NodeProcess, plan: Plan, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    for title, fault in _STEPS.items():
        receiver.messages.clear()
        plan.write([fault])
        run = _start_run(node, "broken")
        _restart_after_kill(node, plan)
        _await_state(node, run, "failed")

        def has_arrived(run: str = run) -> bool:
            newest = [(each["subject"], each["state"]) for each in _list_deliveries(node)[:1]]
            return newest == [(run, "sent")]

        wait_until(has_arrived, seconds=120, what=title)
        ids = [message.id for message in receiver.messages]
        assert ids == [_list_deliveries(node)[0]["id"]] * len(ids), title
        assert {message.json["data"]["run"] for message in receiver.messages} == {run}, title
        assert len(ids) == (2 if title == "the message has arrived" else 1), title
    count = len(_list_deliveries(node))
    assert count == len(_STEPS)

    plan.write([Fault("store run.step", "after", "kill", hit=2)])
    run = _start_run(node, "flaky")
    wait_until(lambda: node.process.poll() is not None, seconds=120, what="the node is killed")
    (tmp_path / "project" / "rows" / "a.txt").write_text("a row\n")
    _restart_after_kill(node, plan)
    _await_state(node, run, "succeeded")
    assert node.http.get(f"/api/v1/runs/{run}").json()["attempt"] > 1
    assert len(_list_deliveries(node)) == count
