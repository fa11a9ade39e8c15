"""Logs of drivers: any node returns the log that another node has."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import Authority
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.waiting import wait_until

from headrace.client.tls import ClientTls
from headrace.control.sessions.session_logs import KeptLogs
from headrace.control.worker_pool import WorkerPool
from headrace.model.ids import new_id

_LEASE = {"renew": "100ms", "sweep": "50ms"}


@contextmanager
def serve(
    home: Path,
    store: str,
    *,
    token: str = "",
    results: str | None = None,
    tls: dict[str, Path] | None = None,
) -> Iterator[InProcessNode]:
    changes: dict[str, Any] = {"token": token} if token else {}
    changes |= {"tls": tls} if tls else {}
    changes |= {"results": {"location": results}} if results else {}
    settings = make_settings(home, store={"url": store}, lease=_LEASE, **changes)
    with serve_node(settings) as node:
        if token:
            node.http.headers["Authorization"] = f"Bearer {token}"
        yield node


def start_with_log(node: InProcessNode) -> str:
    """Start a session at a node, and write its log. Return the path of the log in the API."""
    session_id = node.session()
    log = node.launcher.wait_for_request(session_id).log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("first\nsecond\n")
    return f"/api/v1/sessions/{session_id}/log"


def test_a_log_is_read_at_every_node(tmp_path: Path, postgres_url: str) -> None:
    with serve(tmp_path / "one", postgres_url, token="secret") as one:
        path = start_with_log(one)
        with serve(tmp_path / "two", postgres_url, token="secret") as two:
            assert two.http.get(path).text == "first\nsecond\n"
            assert two.http.get(path, params={"tail": 4}).text == "ond\n"
            for node in (one, two):
                logs, session = node.node.session_logs, path.split("/")[-2]
                assert logs.read(LOCAL_CALLER, session, 12).is_cut
                assert not logs.read(LOCAL_CALLER, session, 13).is_cut
            # A node that is asked by another one does not ask further.
            assert two.http.get(path, params={"forward": "false"}).text == ""


def test_a_log_on_the_host_of_a_lost_node_is_an_error(tmp_path: Path, postgres_url: str) -> None:
    with ExitStack() as staying, ExitStack() as leaving:
        one = leaving.enter_context(serve(tmp_path / "one", postgres_url))
        path = start_with_log(one)
        two = staying.enter_context(serve(tmp_path / "two", postgres_url))
        leaving.close()
        unreachable = wait_until(
            lambda: answer if (answer := two.http.get(path)).status_code == 503 else None,
            what="the node is gone",
        )
        lost = unreachable.json()

    assert lost["code"] == "node_unreachable"
    assert one.node.id in lost["detail"]


def test_a_node_with_another_token_is_named(tmp_path: Path, postgres_url: str) -> None:
    with serve(tmp_path / "one", postgres_url, token="first") as one:
        path = start_with_log(one)
        with serve(tmp_path / "two", postgres_url, token="second") as two:
            refused = two.http.get(path)

    assert refused.status_code == 503
    assert "HEADRACE_TOKEN" in refused.json()["detail"] + str(refused.json().get("hint"))


def test_nodes_that_require_certificates_read_the_logs_of_each_other(
    tmp_path: Path, postgres_url: str
) -> None:
    authority = Authority(tmp_path / "certificates")
    pair, own = authority.issue("node", "127.0.0.1"), authority.issue("own")
    tls = {
        "cert": pair.cert,
        "key": pair.key,
        "ca": authority.ca,
        "client_ca": authority.ca,
        "client_cert": own.cert,
        "client_key": own.key,
    }
    with serve(tmp_path / "one", postgres_url, token="secret", tls=tls) as one:
        path = start_with_log(one)
        with serve(tmp_path / "two", postgres_url, token="secret", tls=tls) as two:
            assert two.http.get(path).text == "first\nsecond\n"
            two.node.session_logs._tls = ClientTls(authority.ca)
            refused = two.http.get(path)

    assert refused.status_code == 503
    assert "tls.client_cert" in refused.json()["detail"] + str(refused.json().get("hint"))


def end_session(node: InProcessNode, session_id: str) -> None:
    driver = node.launcher.connect_driver(session_id)
    driver.hello()
    node.http.delete(f"/api/v1/sessions/{session_id}")
    driver.goodbye()
    wait_until(lambda: node.session_state(session_id) == "dead", what="the session ends")


def test_the_log_of_an_ended_session_outlives_its_node(tmp_path: Path, postgres_url: str) -> None:
    results = str(tmp_path / "results")
    with ExitStack() as staying, ExitStack() as leaving:
        one = leaving.enter_context(serve(tmp_path / "one", postgres_url, results=results))
        # The node itself copies the same log.
        one.node._retention.stop()
        path = start_with_log(one)
        logs = KeptLogs(one.node.context, WorkerPool("test", threads=1, seconds=10.0))
        assert logs.run() == 0
        end_session(one, path.split("/")[-2])
        assert logs.run() == 1
        assert logs.run() == 0
        # After a restart of the node, the copies are known.
        again = KeptLogs(one.node.context, WorkerPool("test", threads=1, seconds=10.0))
        assert again.run() == 0
        two = staying.enter_context(serve(tmp_path / "two", postgres_url, results=results))
        leaving.close()
        wait_until(lambda: two.http.get(path).is_success, what="the node is gone")

        assert two.http.get(path).text == "first\nsecond\n"
        assert two.http.get(path, params={"tail": 4}).text == "ond\n"


@pytest.mark.parametrize("tail", [10, 60, 100_000])
def test_secrets_are_redacted_in_a_log_that_is_read_and_in_its_copy(
    tmp_path: Path, tail: int
) -> None:
    results = tmp_path / "results"
    with serve(tmp_path, f"sqlite:///{tmp_path}/store.db", results=str(results)) as node:
        node.node._retention.stop()
        path = start_with_log(node)
        session_id = path.split("/")[-2]
        log = node.node.settings.layout.session_log(session_id)
        lines = [
            "OPTIONS (password 's3cr3t', url 'jdbc:x://u:s3cr3t@h')",
            "x" * 40,
            "key.secret=s3cr3t",
        ]
        log.write_text("\n".join(lines))
        assert "s3" not in node.http.get(path, params={"tail": tail}).text
        end_session(node, session_id)
        assert KeptLogs(node.node.context, WorkerPool("test", threads=1, seconds=10.0)).run() == 1
    copy = (results / f"{session_id}.log").read_text()
    assert "s3cr3t" not in copy
    assert copy.count("redacted") == 3
    assert log.read_text() == "\n".join(lines)


def test_a_log_that_is_a_link_is_not_kept(tmp_path: Path, postgres_url: str) -> None:
    results = tmp_path / "results"
    with serve(tmp_path / "one", postgres_url, results=str(results)) as node:
        node.node._retention.stop()
        session_id = start_with_log(node).split("/")[-2]
        log = node.node.settings.layout.session_log(session_id)
        log.unlink()
        log.symlink_to("/etc/passwd")
        end_session(node, session_id)

        assert KeptLogs(node.node.context, WorkerPool("test", threads=1, seconds=10.0)).run() == 0

    assert not (results / log.name).exists()


def test_logs_of_sessions_that_the_store_has_deleted_are_removed(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    store = f"sqlite:///{tmp_path / 'headrace.db'}"
    with serve(tmp_path / "one", store, results=str(results)) as node:
        node.node._retention.stop()
        folder = node.node.settings.layout.session_logs
        existing = start_with_log(node).split("/")[-2]
        deleted, recent, elsewhere = (new_id("se") for _ in range(3))
        for session_id in (deleted, recent):
            (folder / f"{session_id}.log").write_text("x")
        for session_id in (deleted, recent, elsewhere):
            (results / f"{session_id}.log").write_text("x")
        long_ago = time.time() - timedelta(days=31).total_seconds()
        for file in [*results.iterdir(), *folder.iterdir()]:
            if recent not in file.name:
                os.utime(file, (long_ago, long_ago))
        logs = KeptLogs(node.node.context, WorkerPool("test", threads=1, seconds=10.0))

        assert logs.remove_deleted() == 1
        assert logs.remove_deleted() == 0
        kept = {file.name for file in folder.glob("se_*.log")}
        assert kept == {f"{session_id}.log" for session_id in (existing, recent)}
        # The log of `elsewhere` may belong to another store with the same results location.
        assert {file.stem for file in results.glob("se_*.log")} == {recent, elsewhere}
