"""Results that a driver holds: who reads them, what releases them, and why they are gone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.driver.output.test_held_results import COLUMNS, make_result
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import spark_schema
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.config.settings import Settings
from headrace.control.host.process_identity import this_host
from headrace.control.statements.held_results import HeldResultReader
from headrace.driver.output.held_results import HeldResults
from headrace.model.lifecycle import StatementState
from headrace.model.result import Disposition, ResultReport


@pytest.fixture
def held() -> Iterator[list[HeldResults]]:
    made: list[HeldResults] = []
    yield made
    for each in made:
        each.close(5.0)


def report_held(node: InProcessNode, driver: ScriptedDriver, port: int) -> str:
    """Let a statement succeed whose rows are at a port. Return its id."""
    session_id = driver.bootstrap.session_id
    statement_id = str(node.submit(session=session_id, result="memory")["id"])
    driver.claim()
    assert driver.succeed(statement_id, make_report(port)).applied
    return statement_id


def make_report(port: int | None) -> ResultReport:
    return ResultReport(
        disposition=Disposition.MEMORY,
        spark_schema=spark_schema(COLUMNS),
        row_count=3,
        byte_count=9,
        truncated=False,
        chunks=2,
        port=port,
    )


def run_held(
    node: InProcessNode, held: list[HeldResults]
) -> tuple[str, str, ScriptedDriver, HeldResults]:
    session_id, driver = node.start_session()
    bootstrap = driver.bootstrap
    holder = HeldResults(
        host=bootstrap.flight_host, secret=bootstrap.flight_secret, limit=bootstrap.memory_limit
    )
    held.append(holder)
    submitted = node.http.post(
        "/api/v1/statements",
        json={"statement": "SELECT 1", "session": session_id, "result": "memory"},
    ).json()
    statement_id = driver.claim().statement_id
    assert statement_id == submitted["id"]
    port = holder.hold(statement_id, make_result([(1, "a"), (2, "b")], [(3, "c")]))
    assert driver.succeed(statement_id, make_report(port)).applied
    return session_id, statement_id, driver, holder


def test_a_node_serves_held_rows_until_the_session_ends(
    node: InProcessNode, held: list[HeldResults]
) -> None:
    session_id, statement_id, driver, _holder = run_held(node, held)
    path = f"/api/v1/statements/{statement_id}"
    assert node.http.get(f"{path}/result").json()["rows"] == [["1", "a"], ["2", "b"]]
    assert node.http.get(f"{path}/result", params={"format": "csv"}).text.count("\r\n") == 4
    result = node.http.get(path).json()["result"]
    assert result["disposition"] == "memory"
    assert result["flight"]["ticket"] == statement_id
    for header in ("X-Forwarded-For", "Forwarded"):
        # The loopback of this host is not the one of a client behind a proxy.
        behind_proxy = node.http.get(path, headers={header: "10.0.0.9"}).json()
        assert behind_proxy["result"]["flight"] is None

    node.http.delete(f"/api/v1/sessions/{session_id}")
    driver.goodbye()
    wait_until(lambda: node.session_state(session_id) == "dead", what="the session ends")
    gone = node.http.get(f"{path}/result")
    assert (gone.status_code, gone.json()["code"]) == (410, "result_gone")
    assert "session was closed" in gone.json()["detail"]
    assert node.http.get(path).json()["result"]["gone_reason"] == "session_closed"
    assert node.http.get(path).json()["result"]["flight"] is None


def test_a_lost_driver_takes_its_rows_with_it(node: InProcessNode, held: list[HeldResults]) -> None:
    _session_id, statement_id, driver, _holder = run_held(node, held)
    assert driver.renew(held=[statement_id]).release == []
    other = "st_" + "0" * 32
    assert driver.renew(held=[other]).release == [other]

    driver.goodbye()
    gone = node.http.get(f"/api/v1/statements/{statement_id}/result")
    assert gone.status_code == 410
    assert "driver was lost" in gone.json()["detail"]


def test_a_result_with_more_chunks_than_rows_fails_its_statement(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id, result="memory")["id"]
    driver.claim()
    driver.report_start(statement_id)
    report = ResultReport(
        disposition=Disposition.MEMORY,
        spark_schema=spark_schema([("n", "long")]),
        row_count=1,
        byte_count=8,
        truncated=False,
        chunks=2**31 - 1,
        port=40_000,
    )
    driver.succeed(statement_id, report)
    assert node.statement(statement_id)["error"]["code"] == "invalid_result"


def test_a_result_that_was_not_to_be_held_fails_its_statement(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_end(statement_id, StatementState.SUCCESS, result=make_report(5432))
    statement = node.http.get(f"/api/v1/statements/{statement_id}").json()
    assert (statement["state"], statement["error"]["code"]) == ("failed", "invalid_result")


def test_a_node_on_another_host_asks_the_node_on_the_host_of_the_driver(
    tmp_path: Path, postgres_url: str, held: list[HeldResults]
) -> None:
    elsewhere = replace(this_host(), boot="another boot")

    def settings(name: str) -> Settings:
        return make_settings(tmp_path / name, store={"url": postgres_url})

    with ExitStack() as staying, ExitStack() as leaving:
        one = leaving.enter_context(serve_node(settings("one")))
        _session_id, statement_id, _driver, _holder = run_held(one, held)
        two = staying.enter_context(serve_node(settings("two")))
        two.node.statements._held_results = HeldResultReader(
            two.node.context, token=None, host=elsewhere
        )
        path = f"/api/v1/statements/{statement_id}"
        for node in (one, two):
            assert node.http.get(f"{path}/result").json()["rows"] == [["1", "a"], ["2", "b"]]
            for offset, rows in enumerate([[["1", "a"]], [["2", "b"]], [["3", "c"]], []]):
                page = node.http.get(f"{path}/result", params={"offset": offset, "limit": 1})
                assert page.json()["rows"] == rows
            page = node.http.get(f"{path}/result", params={"offset": 1, "format": "csv"})
            assert page.text == "n,s\r\n2,b\r\n3,c\r\n"
        # A node that is asked by another one does not ask further.
        refused = two.http.get(f"{path}/result", params={"forward": "false"})
        assert (refused.status_code, refused.json()["code"]) == (503, "node_unreachable")
        assert "on another host than this node" in refused.json()["detail"]
        # Loopback of that host is another place for the clients of this one.
        assert two.http.get(path).json()["result"]["flight"] is None

        with serve_node(settings("three")):
            leaving.close()
            # Another node of that host takes the place of the node that launched the driver.
            assert two.http.get(f"{path}/result").json()["rows"] == [["1", "a"], ["2", "b"]]
        refused = two.http.get(f"{path}/result")
        assert (refused.status_code, refused.json()["code"]) == (503, "node_unreachable")
        assert "no live node is there" in refused.json()["detail"]


def test_a_driver_that_does_not_answer_delays_no_read_from_another_driver(
    node: InProcessNode, held: list[HeldResults]
) -> None:
    _session_id, healthy, _driver, _holder = run_held(node, held)
    _session_id, driver = node.start_session()
    inline = str(node.submit(session=driver.bootstrap.session_id)["id"])
    driver.claim()
    driver.succeed(inline)

    def read(statement_id: str) -> int:
        return node.http.get(f"/api/v1/statements/{statement_id}/result").status_code

    with ThreadPoolExecutor(20) as readers:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            stuck = report_held(node, driver, silent.getsockname()[1])
            hanging = [readers.submit(read, stuck) for _number in range(20)]
            wait_until(lambda: count_threads("headrace-held-reads"), what="the reads have begun")
            assert [read(healthy), read(inline)] == [200, 200]
            assert node.http.get(f"/api/v1/statements/{stuck}").status_code == 200
            assert not any(each.done() for each in hanging)
        # The end of the server ends the calls that wait for it.
        assert {each.result(60) for each in hanging} == {503}


def count_threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())
