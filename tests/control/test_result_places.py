"""Nodes read and delete the files of results only where they placed them themselves."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import stored_result
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.control.retention import Retention
from headrace.control.worker_pool import WorkerPool
from headrace.errors import ResultsUnavailable
from headrace.store.statements import results

pytestmark = pytest.mark.finding("S4")

COLUMNS = [("n", "long")]


def claim(node: InProcessNode) -> tuple[str, ScriptedDriver, Path]:
    """Return a claimed statement, its driver, and the location that the node chose."""
    session_id, driver = node.start_session()
    statement_id: str = node.submit(session=session_id)["id"]
    location = driver.claim().result_location
    assert location is not None
    return statement_id, driver, Path(location)


def succeed(driver: ScriptedDriver, statement_id: str, **forged: object) -> None:
    """Report a stored result of one row, with forged fields."""
    result = {
        "disposition": "stored",
        "spark_schema": {
            "type": "struct",
            "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}],
        },
        "row_count": 1,
        "byte_count": 8,
        "truncated": False,
        "chunks": 1,
        **forged,
    }
    body = {"statement_id": statement_id, "state": "success", "result": result}
    driver._client.post("/ended", json=body).raise_for_status()


def expire(node: InProcessNode, statement_id: str) -> None:
    with node.database.write("test") as tx:
        tx.connection.exec_driver_sql(
            "UPDATE results SET expires_at = created_at FROM statements"
            f" WHERE statements.id = statement_id AND statement_id = '{statement_id}'"
        )


def delete_expired(node: InProcessNode) -> None:
    """Delete the results that have expired, unless the node itself does so just now."""
    Retention(node.node.context).run()


def read_status(node: InProcessNode, statement_id: str) -> tuple[int, str]:
    response = node.http.get(f"/api/v1/statements/{statement_id}/result")
    return response.status_code, response.json().get("code", "")


def test_the_node_ignores_a_reported_location(node: InProcessNode, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    stored_result(foreign, COLUMNS, [[[1]]], chunk_limit=1)
    for location in (str(foreign), foreign.as_uri(), "http://127.0.0.1:9/", "../x"):
        statement_id, driver, _place = claim(node)
        succeed(driver, statement_id, location=location)
        assert read_status(node, statement_id) == (410, "result_gone")


def test_retention_deletes_nothing_at_a_reported_location(
    node: InProcessNode, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign"
    stored_result(foreign, COLUMNS, [[[1]]], chunk_limit=1)
    statement_id, driver, place = claim(node)
    stored_result(place, COLUMNS, [[[1]]], chunk_limit=1)
    succeed(driver, statement_id, location=str(foreign))
    expire(node, statement_id)
    delete_expired(node)
    wait_until(lambda: not place.exists(), what="the place of the node is deleted")
    assert (foreign / "manifest.json").exists()


@pytest.mark.parametrize("name", ["../part-0.arrow", "/etc/passwd", "part-\n.arrow", "x", ""])
def test_a_part_must_have_the_name_of_a_part(node: InProcessNode, name: str) -> None:
    statement_id, driver, place = claim(node)
    stored_result(place, COLUMNS, [[[1]]], chunk_limit=1)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["parts"][0]["name"] = name
    (place / "manifest.json").write_text(json.dumps(manifest))
    succeed(driver, statement_id)
    assert read_status(node, statement_id) == (502, "invalid_result")


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)


def _make_link(path: Path) -> None:
    target = path.parent.parent / "secret"
    target.write_text("{}")
    path.symlink_to(target)


@pytest.mark.parametrize("file", ["manifest.json", "part-00000.arrow"])
@pytest.mark.parametrize("make", [_make_fifo, _make_link])
def test_a_pipe_or_a_link_in_a_result_is_not_opened(
    node: InProcessNode, make: Callable[[Path], None], file: str
) -> None:
    statement_id, driver, place = claim(node)
    stored_result(place, COLUMNS, [[[1]]], chunk_limit=1)
    (place / file).unlink()
    make(place / file)
    succeed(driver, statement_id)
    assert read_status(node, statement_id) == (503, "results_unavailable")


def test_a_linked_result_directory_is_neither_read_nor_followed_by_the_deletion(
    node: InProcessNode, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign"
    stored_result(foreign, COLUMNS, [[[1]]], chunk_limit=1)
    statement_id, driver, place = claim(node)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(foreign)
    succeed(driver, statement_id)
    assert read_status(node, statement_id) == (503, "results_unavailable")
    expire(node, statement_id)
    delete_expired(node)
    wait_until(lambda: not place.is_symlink(), what="the place of the node is deleted")
    assert (foreign / "manifest.json").exists()


@pytest.mark.finding("B10")
def test_results_that_cannot_be_deleted_are_skipped_and_retried_later(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node()
    # The node itself deletes the same results.
    node.node._retention.stop()
    ids = []
    for _ in range(3):
        statement_id, driver, place = claim(node)
        stored_result(place, COLUMNS, [[[1]]], chunk_limit=1)
        succeed(driver, statement_id)
        expire(node, statement_id)
        ids.append(statement_id)
    broken = set(ids[:2])

    def delete(location: str) -> None:
        if any(statement_id in location for statement_id in broken):
            raise ResultsUnavailable("The disk is read-only.")

    monkeypatch.setattr("headrace.control.retention.delete", delete)
    monkeypatch.setattr("headrace.control.retention._BATCH", 2)
    retention = Retention(node.node.context)
    assert retention.run() == 1
    assert node.statement(ids[2])["result"]["gone"]
    with node.database.read() as tx:
        assert results.expired(tx, 10) == []
    broken.clear()
    with node.database.write("test") as tx:
        tx.connection.exec_driver_sql("UPDATE results SET retry_at = expires_at")
    assert retention.run() == 2


def test_hanging_reads_block_neither_other_reads_nor_the_end_of_the_process() -> None:
    # The threads of the pools of other tests stay.
    pool = WorkerPool("hanging-reads", threads=2, seconds=0.2)
    released = threading.Event()
    for _ in range(5):
        with pytest.raises(ResultsUnavailable, match="did not answer within"):
            pool.call(released.wait)
    assert pool.submit(lambda: 7).result(60) == 7
    threads = [
        thread for thread in threading.enumerate() if thread.name == "headrace-hanging-reads"
    ]
    assert len(threads) > 2
    assert all(thread.daemon for thread in threads)
    released.set()
    wait_until(lambda: sum(thread.is_alive() for thread in threads) <= 2, what="threads end")


def test_a_statement_may_choose_a_location_only_below_an_allowed_one(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(results={"allowed": [str(tmp_path / "shared")]})
    session_id, driver = node.start_session()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "link").symlink_to(tmp_path)
    denied = ["http://127.0.0.1:9", "/", str(tmp_path), f"{tmp_path}/shared2", "relative"]
    denied += [f"file://elsewhere{tmp_path}/shared/a", f"{tmp_path}/shared/link/other"]
    for location in denied:
        body = {"statement": "SELECT 1", "session": session_id, "result_location": location}
        response = node.http.post("/api/v1/statements", json=body)
        assert (response.status_code, response.json()["code"]) == (403, "result_location_denied")
    forged = f"{tmp_path}/shared/../other"
    body = {"statement": "SELECT 1", "session": session_id, "result_location": forged}
    assert node.http.post("/api/v1/statements", json=body).status_code == 403
    for location in (f"{tmp_path}/shared/a", f"FILE://localhost{tmp_path}/shared//a"):
        statement_id = node.submit(session=session_id, result_location=location)["id"]
        assert driver.claim().result_location == f"{location}/{statement_id}-1-1"
        driver.succeed(statement_id)


def test_a_result_location_with_a_password_is_refused_without_showing_it(
    start_node: StartNode,
) -> None:
    node = start_node(results={"allowed": ["/shared"]})
    body = {"statement": "SELECT 1", "result_location": "s3a://key:hunter2@bucket/a"}
    response = node.http.post("/api/v1/statements", json=body)

    assert (response.status_code, response.json()["code"]) == (400, "invalid_location")
    assert "hunter2" not in response.text
