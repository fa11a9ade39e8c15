"""A client of several nodes: a wait continues at another node."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.auto_reply import AutoReplyLauncher
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import inline_result, stored_result
from tests.support.waiting import wait_until

import headrace
from headrace.client.http import Client
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment


def test_a_wait_continues_at_another_node_without_a_second_statement(
    tmp_path: Path, postgres_url: str
) -> None:
    def serve(name: str, stack: ExitStack) -> InProcessNode:
        settings = make_settings(tmp_path / name, store={"url": postgres_url})
        return stack.enter_context(serve_node(settings))

    with ExitStack() as staying_stack, ExitStack() as leaving_stack:
        staying = serve("staying", staying_stack)
        session_id, driver = staying.start_session()
        leaving = serve("leaving", leaving_stack)
        ended = []

        def run() -> None:
            with Client(f"{leaving.address},{staying.address}") as client:
                body = {"statement": "SELECT 1", "session": session_id}
                statement = client.submit(body)
                while statement["state"] not in {"success", "failed"}:
                    statement = client.statement(statement["id"], wait=5)
                ended.append((client.address, statement))

        waiting = threading.Thread(target=run)
        waiting.start()
        assignment = driver.claim()
        driver.report_start(assignment.statement_id)
        leaving_stack.close()
        driver.succeed(assignment.statement_id)
        waiting.join(60)

        [(address, statement)] = ended
        listed = staying.http.get("/api/v1/statements").json()["items"]
        wait_until(lambda: not waiting.is_alive(), what="the client has ended")
        assert address == staying.address
        assert statement["id"] == assignment.statement_id
        assert [each["id"] for each in listed] == [assignment.statement_id]


def test_a_connection_of_python_continues_at_another_node(
    tmp_path: Path, postgres_url: str
) -> None:
    def serve(name: str, stack: ExitStack) -> InProcessNode:
        settings = make_settings(tmp_path / name, store={"url": postgres_url})
        launcher = AutoReplyLauncher(lambda _: {"state": StatementState.SUCCESS, "result": result})
        return stack.enter_context(serve_node(settings, launcher))

    result = inline_result([("n", "long")], [[1], [2]])
    with ExitStack() as staying_stack, ExitStack() as leaving_stack:
        staying = serve("staying", staying_stack)
        leaving = serve("leaving", leaving_stack)
        with headrace.connect(f"{leaving.address},{staying.address}") as connection:
            cursor = connection.execute("SELECT n FROM t")
            assert connection.address == leaving.address
            leaving_stack.close()
            assert cursor.fetchall() == [(1,), (2,)]
            connection.check()
            assert connection.address == staying.address


def test_a_fetch_continues_at_another_node_with_all_rows_and_none_twice(
    tmp_path: Path, postgres_url: str
) -> None:
    columns = [("n", "long"), ("s", "string")]
    rows = [[n, str(n)] for n in range(20_000)]

    def reply(assignment: Assignment) -> dict[str, Any]:
        assert assignment.result_location is not None
        parts = [rows[begin : begin + 1000] for begin in range(0, len(rows), 1000)]
        result = stored_result(Path(assignment.result_location), columns, parts, chunk_limit=1)
        return {"state": StatementState.SUCCESS, "result": result}

    def serve(name: str, stack: ExitStack) -> InProcessNode:
        settings = make_settings(tmp_path / name, store={"url": postgres_url})
        return stack.enter_context(serve_node(settings, AutoReplyLauncher(reply)))

    with ExitStack() as staying_stack, ExitStack() as leaving_stack:
        staying = serve("staying", staying_stack)
        leaving = serve("leaving", leaving_stack)
        with headrace.connect(f"{leaving.address},{staying.address}") as connection:
            by_tuples = connection.execute("SELECT n, s FROM t")
            by_batches = connection.execute("SELECT n, s FROM t").fetch_record_batch()
            fetched = by_tuples.fetchmany(2500)
            batches = [by_batches.read_next_batch() for _ in range(3)]
            assert connection.address == leaving.address
            leaving_stack.close()
            fetched += by_tuples.fetchall()
            batches += list(by_batches)
            assert connection.address == staying.address
        assert fetched == [tuple(row) for row in rows]
        assert [n for batch in batches for n in batch.column(0).to_pylist()] == list(range(20_000))
